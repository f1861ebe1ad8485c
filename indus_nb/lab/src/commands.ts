/** Commands of the agent, for the palette, menus, the toolbar and shortcuts. */

import type { ICommandPalette } from "@jupyterlab/apputils";
import type { CodeCell } from "@jupyterlab/cells";
import type { IFileBrowserFactory } from "@jupyterlab/filebrowser";
import type { CommandRegistry } from "@lumino/commands";
import { attachCell, attachFiles, attachSelection, attachVariable, selectedIn } from "./attach.ts";
import { askAboutError, errorOf, type Task } from "./errors.ts";
import type { Front } from "./front.ts";
import type { Link } from "./link.ts";
import { askingLink, goToQuestion } from "./mark.ts";
import { OPEN_PANEL } from "./side_panel.ts";

const CATEGORY = "Agent";

/** A command about the notebook in front. */
interface OfNotebook extends Pick<CommandRegistry.ICommandOptions, "label"> {
  run(front: Front, link: Link): unknown;
  /** Whether it can be run now; by default it can. */
  can?(link: Link, front: Front): boolean;
}

export function addCommands(front: Front, palette: ICommandPalette | null, browsers: IFileBrowserFactory | null): void {
  const { app, links } = front;
  for (const [name, command] of Object.entries(declared(browsers))) {
    const id = `indus_nb:${name}`;
    const { run, can, ...shown } = command;
    app.commands.addCommand(id, {
      ...shown,
      isEnabled: () => links.current !== null && (can?.(links.current, front) ?? true),
      isVisible: () => links.current !== null,
      execute: () => links.current && run(front, links.current),
    });
    palette?.addItem({ command: id, category: CATEGORY });
  }
  palette?.addItem({ command: OPEN_PANEL, category: CATEGORY });
}

function declared(browsers: IFileBrowserFactory | null): Record<string, OfNotebook> {
  return {
    fix: {
      label: "Fix the Error of This Cell",
      run: (front, link) => askAboutActive(front, link, "fix"),
      can: hasError,
    },
    explain: {
      label: "Explain the Error of This Cell",
      run: (front, link) => askAboutActive(front, link, "explain"),
      can: hasError,
    },
    stop: {
      label: "Stop the Agent",
      run: (_, link) => link.send({ kind: "stop" }),
      can: ({ state }) => state.kernel !== null && state.kernel.phase !== "idle",
    },
    "go-to-question": {
      label: "Go to the Agent's Question",
      run: (front, link) => goToQuestion(front, askingLink(front, link) ?? link),
      can: (link, front) => askingLink(front, link) !== null,
    },
    "new-conversation": {
      label: "Begin a New Conversation",
      run: beginAnew,
    },
    "attach-selection": {
      label: "Attach the Selection to the Prompt",
      run: attachSelection,
      can: (link) => selectedIn(link) !== "",
    },
    "attach-cell": {
      label: "Attach This Cell to the Prompt",
      run: attachCell,
      can: ({ notebook }) => notebook.content.activeCell !== null,
    },
    "attach-variable": {
      label: "Attach a Variable to the Prompt…",
      run: attachVariable,
    },
    ...(browsers && {
      "attach-file": {
        label: "Attach to the Agent's Prompt",
        run: (front: Front, link: Link) => attachFiles(front, link, browsers),
      },
    }),
  };
}

function activeCell({ notebook }: Link): CodeCell | null {
  const cell = notebook.content.activeCell;
  return cell?.model.type === "code" ? (cell as CodeCell) : null;
}

function hasError(link: Link): boolean {
  const cell = activeCell(link);
  return cell !== null && errorOf(cell) !== null;
}

async function askAboutActive(front: Front, link: Link, task: Task): Promise<void> {
  const cell = activeCell(link);
  if (cell) await askAboutError(front, link, cell, task);
}

async function beginAnew(front: Front, link: Link): Promise<void> {
  if (await front.openPanel(link)) link.send({ kind: "new_conversation" });
}
