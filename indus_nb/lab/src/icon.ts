/** The agent's icon. */

import { LabIcon } from "@jupyterlab/ui-components";

export const agentIcon = new LabIcon({
  name: "indus_nb:agent",
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
  <path class="jp-icon3" fill="#616161" d="M2.5 2h7v1.5h-7v7h2v1.9l2.6-1.9h5.4V8H14v2.5c0 .8-.7 1.5-1.5 1.5H7.6L3
  15.3V12h-.5C1.7 12 1 11.300 1 10.500v-7C1 2.700 1.700 2 2.500 2zM13 0l.8 2.200L16 3l-2.200.8L13 6l-.8-2.200L10 3l2.200-.8z"/>
</svg>`,
});
