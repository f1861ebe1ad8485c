/**
 * Running a cell of the notebook as its front end does, which offers widgets no command for that.
 *
 * Contract: the kernel is asked once, and what it sends goes into the cell: outputs while they come, the number at the
 * end. A kernel that is busy runs the cell afterwards; when what runs before it fails, it does not run.
 */

/**
 * The part of a kernel connection of JupyterLab's that is used here.
 *
 * @typedef {object} KernelConnection
 * @property {(content: object, disposeOnDone: boolean, metadata: object) => Future} requestExecute
 * @property {string} [clientId] the id that this page has for the kernel
 */
/**
 * @typedef {object} Future
 * @property {(message: Message) => void} onIOPub
 * @property {Promise<Message | undefined>} done
 */
/**
 * @typedef {object} Message
 * @property {{ msg_type: string }} header
 * @property {Record<string, any>} content
 */
/**
 * @typedef {object} RunnableCell
 * @property {string} id
 * @property {{ getSource(): string }} sharedModel
 * @property {Outputs} outputs
 * @property {number | null} executionCount
 * @property {string} [executionState]
 * @property {boolean} [trusted]
 * @property {() => void} [clearExecution]
 */
/**
 * @typedef {object} Outputs
 * @property {number} length
 * @property {(output: object) => number} add
 * @property {(index: number, output: object) => void} set
 * @property {(wait?: boolean) => void} clear
 */

/**
 * Run a cell.
 *
 * @param {RunnableCell} cell
 * @param {KernelConnection} kernel
 */
export function runCell(cell, kernel) {
  if (cell.clearExecution) cell.clearExecution();
  else cell.outputs.clear();
  cell.trusted = true;
  if ("executionState" in cell) cell.executionState = "running";
  const content = {
    code: cell.sharedModel.getSource(),
    silent: false,
    store_history: true,
    user_expressions: {},
    allow_stdin: false,
    stop_on_error: true,
  };
  const future = kernel.requestExecute(content, false, { cellId: cell.id });
  /** Where displays stand that may be updated, by their ids.
   * @type {Map<string, number[]>} */
  const places = new Map();
  future.onIOPub = (message) => show(message, cell.outputs, places);
  future.done
    .then((reply) => {
      cell.executionCount = reply?.content.execution_count ?? null;
    })
    .catch(() => {}) // the kernel is gone
    .finally(() => {
      if ("executionState" in cell) cell.executionState = "idle";
    });
}

/**
 * @param {Message} message
 * @param {Outputs} outputs
 * @param {Map<string, number[]>} places
 */
function show({ header: { msg_type: type }, content }, outputs, places) {
  const { transient, ...shown } = content;
  const id = transient?.display_id;
  switch (type) {
    case "stream":
    case "error":
    case "execute_result":
    case "display_data": {
      outputs.add({ ...shown, output_type: type });
      if (id) places.set(id, [...(places.get(id) ?? []), outputs.length - 1]);
      break;
    }
    case "update_display_data":
      for (const place of places.get(id) ?? []) outputs.set(place, { ...shown, output_type: "display_data" });
      break;
    case "clear_output":
      outputs.clear(Boolean(content.wait));
      places.clear();
      break;
    default:
  }
}
