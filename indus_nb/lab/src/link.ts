/**
 * The connection of one notebook to the agent in its kernel.
 *
 * Contract: before `ensure` nothing in the kernel is changed. From then on the link comes back by itself: after a
 * restart, another kernel, a lost connection. Messages are those that `door.d.ts` declares, and no others.
 */

import type { NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel, KernelMessage } from "@jupyterlab/services";
import { DisposableDelegate, type IDisposable } from "@lumino/disposable";
import { type ISignal, Signal } from "@lumino/signaling";
import type { FromDoor, Shows, State, ToDoor } from "./door.ts";

const TARGET = "indus_nb.door";
/** Evaluated in the kernel: it loads the package, and leaves no name behind. */
const OPEN_DOORS = '__import__("importlib").import_module("indus_nb.front.notebook").open_doors()';
/** Evaluated behind it, with the notebook's path: cells of this connection are known to be that notebook's. */
const NOTE_NOTEBOOK = '__import__("importlib").import_module("indus_nb.front.notebook").note_notebook';
/** How long to wait before each further try to connect to a kernel that has the package, and closed the connection. */
const PAUSES_MS = [0, 500, 2_000];
const IS_LOADED = '"indus_nb.front.notebook" in __import__("sys").modules';
const IS_HERE = '__import__("importlib.util").util.find_spec("indus_nb") is not None';

/** "waiting" is for a kernel whose cell has to end first. */
export type Phase = "none" | "no-kernel" | "not-python" | "not-installed" | "waiting" | "loading" | "ready" | "failed";

/** What is known of the agent of a notebook. */
export interface DoorState {
  readonly phase: Phase;
  /** Why it failed. */
  readonly problem: string;
  /** What the kernel said last; `null` unless the phase is "ready". */
  readonly kernel: State | null;
}

const NOTHING: DoorState = { phase: "none", problem: "", kernel: null };

type Handler = (message: ToDoor) => void;

export class Link implements IDisposable {
  private held: DoorState = NOTHING;
  private comm: Kernel.IComm | null = null;
  private opening: Promise<boolean> | null = null;
  /** Rises when the kernel may be another one: what was begun before it is over then. */
  private era = 0;
  /** Ends the wait for the kernel's answer to a connection. */
  private giveUp = () => {};
  /** Why the kernel closed the newest connection that it did not take. */
  private refusal = "";
  private wanted = false;
  /** Whether the kernel has not begun to load the package. */
  private waitsForCell = false;
  /** The session that the kernel's process has for its messages; `null` before it has answered any. */
  private process: string | null = null;
  /** What became of the request to load the package. */
  private loaded: Promise<string | null> | null = null;
  private readonly handlers = new Map<ToDoor["kind"], Set<Handler>>();
  private readonly signal = new Signal<this, void>(this);
  isDisposed = false;

  /** @param withComms finds the connection to the same kernel over which comms pass */
  constructor(
    readonly notebook: NotebookPanel,
    private readonly withComms: (kernel: Kernel.IKernelConnection) => Kernel.IKernelConnection,
  ) {
    const { sessionContext, context } = notebook;
    sessionContext.kernelChanged.connect(this.leave, this);
    sessionContext.statusChanged.connect(this.watch, this);
    sessionContext.connectionStatusChanged.connect(this.comeBack, this);
    sessionContext.iopubMessage.connect(this.notice, this);
    context.pathChanged.connect(this.showNotebook, this);
  }

  get state(): DoorState {
    return this.held;
  }

  /** Emitted after each change of the state. */
  get changed(): ISignal<this, void> {
    return this.signal;
  }

  /** Load the package in the kernel if that is needed, and connect; `false` if it cannot, then the state says why. */
  ensure(): Promise<boolean> {
    this.wanted = true;
    if (this.held.phase === "ready") return Promise.resolve(true);
    return this.opening ?? this.track(this.open());
  }

  /** Connect again if the agent was loaded in this kernel before the page was; else nothing happens there. */
  async rejoin(): Promise<void> {
    const { sessionContext } = this.notebook;
    await sessionContext.ready;
    const kernel = sessionContext.session?.kernel;
    try {
      if (kernel && ((await doorsOf(kernel)).length > 0 || (await isLoaded(kernel)))) await this.ensure();
    } catch {
      // the kernel is gone
    }
  }

  /** Say that the page goes away. */
  leaveNotebook(): void {
    this.send({ kind: "leaves" });
  }

  /** Load the package, and connect, before the kernel is sent anything else; it has to be one of Python. */
  loadFirst(): void {
    const kernel = this.notebook.sessionContext.session?.kernel;
    if (!kernel || this.held.phase === "ready") return;
    this.wanted = true;
    if (this.opening) {
      // It may still wait for the kernel to say what it is, behind which the cell would be before the package.
      this.load(kernel).catch(() => null); // which the opening says
      return;
    }
    const { era } = this;
    const isOver = () => this.era !== era;
    const connecting = Promise.all([this.load(kernel), this.connect(kernel)])
      .then(async ([problem, connected]) => problem === null && (connected || this.connectAgain(kernel, isOver)))
      .catch(() => false) // the kernel is gone
      .then((connected) => connected || (!isOver() && this.set("none")));
    this.track(connecting);
  }

  /** Send a message, if the link is ready. */
  send(message: FromDoor): void {
    if (this.comm && !this.comm.isDisposed) this.comm.send(message as unknown as Parameters<Kernel.IComm["send"]>[0]);
  }

  /** Have each message of a kind handled, until what this returns is disposed of. */
  on<K extends ToDoor["kind"]>(kind: K, handler: (message: Extract<ToDoor, { kind: K }>) => void): IDisposable {
    const handlers = this.handlers.get(kind) ?? new Set();
    this.handlers.set(kind, handlers.add(handler as Handler));
    return new DisposableDelegate(() => handlers.delete(handler as Handler));
  }

  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
    this.wanted = false;
    const { comm } = this;
    this.comm = null;
    if (comm && !comm.isDisposed) comm.close();
    this.drop();
    Signal.clearData(this);
  }

  private track(opening: Promise<boolean>): Promise<boolean> {
    const tracked = opening.finally(() => {
      if (this.opening === tracked) this.opening = null;
    });
    this.opening = tracked;
    return tracked;
  }

  private async open(): Promise<boolean> {
    const { era } = this;
    const isOver = () => this.era !== era;
    const { sessionContext } = this.notebook;
    await sessionContext.ready;
    const outcome = isOver() ? null : await this.enter(sessionContext.session?.kernel, isOver);
    // Two openings for one kernel would close each other's connections; a new notebook gets its kernel during the first.
    if (isOver()) return this.opening ?? this.held.phase === "ready";
    return outcome ? this.set(...outcome) : true;
  }

  /** Load the package and connect; returns what to say where that fails. */
  private async enter(
    kernel: Kernel.IKernelConnection | null | undefined,
    isOver: () => boolean,
  ): Promise<[Phase, string?] | null> {
    if (!kernel) return ["no-kernel"];
    this.set("loading");
    try {
      if ((await kernel.info).language_info.name !== "python") return ["not-python"];
      if (isOver()) return null;
      const loaded = this.load(kernel);
      // A kernel that has the package takes this at once, also while a cell waits for the agent.
      const connected = this.connect(kernel);
      if (await Promise.race([connected, loaded.then(() => false)])) return null;
      const problem = await loaded;
      if (problem !== null) return problem ? ["failed", problem] : ["not-installed"];
      if ((await connected) || (await this.connectAgain(kernel, isOver))) return null;
      return ["failed", this.refused];
    } catch (error) {
      if (kernel.isDisposed || this.isDisposed) return null;
      return ["failed", error instanceof Error ? error.message : String(error)];
    }
  }

  private get refused(): string {
    const why = this.refusal ? `: ${this.refusal}` : "";
    return `The kernel closed the connection${why}. %agent doctor in a cell says what it knows of it.`;
  }

  /** Connect to a kernel that had no package before, or closed the connection for another reason. */
  private async connectAgain(kernel: Kernel.IKernelConnection, isOver: () => boolean): Promise<boolean> {
    for (const pause of PAUSES_MS) {
      if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
      if (isOver()) return false;
      if (await this.connect(kernel)) return true;
    }
    return false;
  }

  /** Load the package once; returns why it cannot be, empty where it is not installed, and `null` if it was. */
  private load(kernel: Kernel.IKernelConnection): Promise<string | null> {
    if (this.loaded) return this.loaded;
    const loaded = this.requestLoad(kernel).finally(() => {
      if (this.loaded === loaded) this.loaded = null;
    });
    this.loaded = loaded;
    return loaded;
  }

  private async requestLoad(kernel: Kernel.IKernelConnection): Promise<string | null> {
    this.waitsForCell = true;
    if (kernel.status === "busy") this.set("waiting");
    const begins = () => {
      this.waitsForCell = false;
      if (this.held.phase === "waiting") this.set("loading");
    };
    const noted = `${NOTE_NOTEBOOK}(${JSON.stringify(this.notebook.context.path)})`;
    const expressions = { here: IS_HERE, loaded: `${OPEN_DOORS} if ${IS_HERE} else None`, noted };
    const found = await evaluate(kernel, expressions, begins);
    if (!found) return "The kernel did not load the package.";
    const { here, loaded } = found;
    if (loaded?.status === "error") return `${loaded.ename}: ${loaded.evalue}`;
    return here?.data?.["text/plain"] === "True" ? null : "";
  }

  private connect(kernel: Kernel.IKernelConnection): Promise<boolean> {
    const comm = this.withComms(kernel).createComm(TARGET);
    const before = this.comm; // of an opening that the kernel's change has overtaken
    this.comm = comm;
    if (before && !before.isDisposed) before.close();
    return new Promise((resolve) => {
      let isOpen = false;
      this.giveUp = () => resolve(false);
      comm.onMsg = ({ content }) => {
        isOpen = true;
        if (this.comm === comm) this.receive(content.data as unknown as ToDoor);
        resolve(true);
      };
      comm.onClose = ({ content }) => {
        this.refusal = (content.data as { error?: string }).error ?? "";
        if (isOpen && this.comm === comm) this.leave();
        resolve(false);
      };
      comm.open({ ...this.shows(kernel) });
    });
  }

  private receive(message: ToDoor): void {
    if (message.kind === "state") this.set("ready", "", message);
    for (const handler of this.handlers.get(message.kind) ?? []) handler(message);
  }

  private shows(kernel: Kernel.IKernelConnection): Shows {
    return { kind: "shows", path: this.notebook.context.path, client: kernel.clientId };
  }

  private showNotebook(): void {
    const kernel = this.notebook.sessionContext.session?.kernel;
    if (kernel) this.send(this.shows(kernel));
  }

  private watch(_: unknown, status: string): void {
    const kernel = this.notebook.sessionContext.session?.kernel;
    // JupyterLab runs no cell before an input is answered, and does not notice one that ended without: answered elsewhere.
    if (status === "idle" && kernel?.hasPendingInput) kernel.hasPendingInput = false;
    if (status === "restarting" || status === "autorestarting" || status === "dead") this.drop();
    else if (status === "idle" && this.wanted && this.held.phase === "none") this.ensure();
    else if (status === "busy" && this.waitsForCell && this.held.phase === "loading") this.set("waiting");
  }

  /**
   * Notice a restart that was asked for in another notebook, and follow another page that shares the kernel once that
   * has loaded the agent.
   */
  private notice(_: unknown, { content, header, parent_header }: KernelMessage.IMessage): void {
    // What the server says of a kernel by itself answers nothing, and has a session of its own.
    if ("msg_id" in parent_header) {
      if (this.process !== null && this.process !== header.session) this.leave();
      this.process = header.session;
    }
    const data = "data" in content ? (content.data as Partial<State>) : null;
    if (data?.kind === "state" && !this.wanted) this.rejoin();
  }

  /** After a lost connection the kernel may have taken the page for gone. */
  private async comeBack(_: unknown, status: Kernel.ConnectionStatus): Promise<void> {
    const { comm } = this;
    const kernel = this.notebook.sessionContext.session?.kernel;
    if (status !== "connected" || !kernel || !comm || this.held.phase !== "ready") return;
    const doors = await doorsOf(kernel).catch(() => [comm.commId]);
    if (this.comm !== comm) return;
    if (doors.includes(comm.commId)) this.showNotebook();
    else this.leave();
  }

  private leave(): void {
    this.drop();
    if (this.wanted) this.ensure();
  }

  private drop(): void {
    this.era += 1;
    this.giveUp();
    this.comm?.dispose();
    this.comm = null;
    this.opening = null;
    this.loaded = null;
    this.process = null;
    this.set("none");
  }

  private set(phase: Phase, problem = "", kernel: State | null = null): boolean {
    this.held = { phase, problem, kernel };
    if (!this.isDisposed) this.signal.emit();
    return phase === "ready";
  }
}

/** The ids of the connections of pages that a kernel has; it says so also while a cell waits for the agent. */
async function doorsOf(kernel: Kernel.IKernelConnection): Promise<string[]> {
  const { content } = await kernel.requestCommInfo({ target_name: TARGET });
  return content.status === "ok" ? Object.keys(content.comms) : [];
}

/** Whether a kernel has the package loaded. */
async function isLoaded(kernel: Kernel.IKernelConnection): Promise<boolean> {
  if ((await kernel.info).language_info.name !== "python") return false;
  const found = await evaluate(kernel, { loaded: IS_LOADED });
  return found?.loaded?.data?.["text/plain"] === "True";
}

/** Evaluate expressions between cells; `null` if the kernel did not. */
async function evaluate(
  kernel: Kernel.IKernelConnection,
  expressions: Record<string, string>,
  begins = () => {},
): Promise<Record<string, Evaluated> | null> {
  const quietly = { silent: true, store_history: false, allow_stdin: false };
  const future = kernel.requestExecute({ code: "", ...quietly, user_expressions: expressions });
  future.onIOPub = begins;
  const { content } = await future.done;
  // A cell before it was interrupted, or failed, and took along what waited behind it.
  if ((content.status as string) === "aborted") return evaluate(kernel, expressions, begins);
  return content.status === "ok" ? (content.user_expressions as unknown as Record<string, Evaluated>) : null;
}

/** What a kernel answers for an expression. */
interface Evaluated {
  status: "ok" | "error";
  data?: Record<string, unknown>;
  ename?: string;
  evalue?: string;
}
