(()=>{const require=(name)=>require.libraries[name];
"use strict";var y=Object.defineProperty;var nt=Object.getOwnPropertyDescriptor;var ot=Object.getOwnPropertyNames;var rt=Object.prototype.hasOwnProperty;var it=(n,e,t)=>e in n?y(n,e,{enumerable:!0,configurable:!0,writable:!0,value:t}):n[e]=t;var d=(n,e,t)=>()=>{if(t)throw t[0];try{return n&&(e=n(n=0)),e}catch(o){throw t=[o],o}};var st=(n,e)=>{for(var t in e)y(n,t,{get:e[t],enumerable:!0})},at=(n,e,t,o)=>{if(e&&typeof e=="object"||typeof e=="function")for(let r of ot(e))!rt.call(n,r)&&r!==t&&y(n,r,{get:()=>e[r],enumerable:!(o=nt(e,r))||o.enumerable});return n};var lt=n=>at(y({},"__esModule",{value:!0}),n);var i=(n,e,t)=>it(n,typeof e!="symbol"?e+"":e,t);var u,a=d(()=>{u=["@jupyterlab/application","@jupyterlab/apputils","@jupyterlab/filebrowser","@jupyterlab/notebook","@jupyterlab/settingregistry","@jupyterlab/statusbar","@jupyterlab/ui-components","@lumino/disposable","@lumino/signaling","@lumino/widgets"]});function Q(n,e){let t=s=>s.replace(/^[^/:]*:/,"").split("/").filter(Boolean),o=t(n),r=t(e).slice(0,-1);for(;r.length>0&&o.length>1&&r[0]===o[0];)r.shift(),o.shift();return[...r.map(()=>".."),...o].join("/")}function G(n){return/\s/.test(n)?`"${n}"`:`@${n}`}var U=d(()=>{"use strict";a()});async function w(n,e,t){t&&await n.openPanel(e)&&e.send({kind:"insert",text:t})}function Z(n,e){return w(n,e,oe(F(e)))}function F({notebook:n}){let e=n.content.activeCell?.editor;if(e){let{start:o,end:r}=e.getSelection(),[s,l]=[e.getOffsetAt(o),e.getOffsetAt(r)].sort((p,h)=>p-h),c=e.model.sharedModel.getSource().slice(s,l);if(c)return c}let t=document.getSelection();return t&&n.node.contains(t.anchorNode)?t.toString():""}function ee(n,e){let t=e.notebook.content.activeCell;return t?w(n,e,ct(t)):Promise.resolve()}function ct({model:n}){let e=n.type==="code"?n.executionCount:null;return e===null?oe(n.sharedModel.getSource()):`@cell ${e}`}function te(n,e,t){let o=[...t.tracker.currentWidget?.selectedItems()??[]],{path:r}=e.notebook.context,s=o.map(l=>G(Q(l.path,r)));return w(n,e,s.join(" "))}async function ne(n,e){if(!await n.openPanel(e))return;let t=(await ut(e)).map(({name:r,type:s})=>`${r}: ${s}`);if(t.length===0){await(0,m.showDialog)({title:Y,body:"The kernel holds no variable of yours.",buttons:[m.Dialog.okButton()]});return}let{value:o}=await m.InputDialog.getItem({title:Y,items:t,okLabel:"Attach"});o&&await w(n,e,`$${o.split(":")[0]}`)}function ut(n){return new Promise(e=>{let t=n.on("variables",({variables:o})=>{t.dispose(),e(o)});n.send({kind:"list_variables"})})}function oe(n){let e=n.length>X?`${n.slice(0,X)}…`:n;if(e.trim()==="")return"";let t=Math.max(2,...[...e.matchAll(/`{3,}/g)].map(([r])=>r.length)),o="`".repeat(t+1);return`${o}
${e.replace(/\n$/,"")}
${o}
`}var m,X,Y,re=d(()=>{"use strict";a();m=require("@jupyterlab/apputils");U();X=4e3,Y="Attach a Variable"});function v({tracker:n},e){n.forEach(e),n.widgetAdded.connect((t,o)=>e(o))}function x({content:n}){let e=n.model?.defaultKernelLanguage??"";return e===""||/python/i.test(e)}var C=d(()=>{"use strict";a()});function se(n){v(n,e=>{let t=new j(n,e);e.disposed.connect(()=>t.dispose())})}async function D(n,e,t,o){let r=M(t);if(!r)return;let s=r.traceback.length>0?r.traceback.join(`
`):`${r.ename}: ${r.evalue}`,l=t.model.sharedModel.getSource();await n.openPanel(e)&&e.send({kind:o,cell:t.model.id,source:l.slice(0,ie),error:s.slice(-ie)})}function M(n){let e=ae(n.model);return e<0?null:n.model.outputs.get(e).toJSON()}function ae({outputs:n,sharedModel:e}){for(let t=n.length-1;t>=0;t--){if(n.get(t).type!=="error")continue;let{ename:o}=n.get(t).toJSON();return o==="KeyboardInterrupt"||pt.test(e.getSource())?-1:t}return-1}var ie,pt,ht,j,$=d(()=>{"use strict";a();C();ie=2e4,pt=/^[ \t]*%{1,2}agent\b/m,ht={fix:["Fix","Ask the agent to find the cause and to propose the mended cell"],explain:["Explain","Ask the agent why this cell failed; it changes nothing"]};j=class{constructor(e,t){i(this,"front",e);i(this,"notebook",t);i(this,"bars",new Map);i(this,"watched",new WeakSet);let{content:o}=t;o.modelChanged.connect(this.watchCells,this),o.modelContentChanged.connect(this.watchCells,this),e.options.changed.connect(this.drawAll,this),this.watchCells()}dispose(){this.front.options.changed.disconnect(this.drawAll,this),this.bars.clear()}get cells(){return this.notebook.content.widgets.filter(e=>e.model.type==="code")}watchCells(){for(let e of this.cells){if(this.watched.has(e))continue;this.watched.add(e);let t=()=>this.draw(e);e.model.outputs.changed.connect(t),e.disposed.connect(()=>this.bars.delete(e)),t()}}drawAll(){for(let e of this.cells)this.draw(e)}draw(e){let t=this.front.options.errorBar&&x(this.notebook)?ae(e.model):-1,{widgets:o}=e.outputArea,r=t<0?void 0:o[t]??o.at(-1),s=this.bars.get(e);if(!r)s?.remove(),this.bars.delete(e);else if(s?.previousSibling!==r.node){let l=s??this.bar(e);this.bars.set(e,l),r.node.after(l)}}bar(e){let t=document.createElement("div");return t.className="indus-error-bar",t.setAttribute("role","group"),t.setAttribute("aria-label","Ask the agent about this error"),t.dataset.lmSuppressShortcuts="true",t.append(...["fix","explain"].map(o=>this.button(e,o))),t}button(e,t){let o=document.createElement("button");return[o.textContent,o.title]=ht[t],o.type="button",o.addEventListener("click",()=>{D(this.front,this.front.links.of(this.notebook),e,t)}),o}}});function ce(n){let{links:e,options:t}=n;v(n,o=>{let r=e.of(o),s=()=>ft(o,t.questionMark&&f(r));r.changed.connect(s),t.changed.connect(s),o.disposed.connect(()=>{t.changed.disconnect(s)}),s()})}function f({state:n}){return n.kernel?.phase==="asking"}function ft({title:n},e){let t=n.className.split(" ").filter(r=>r&&r!==le);n.className=[...t,...e?[le]:[]].join(" ");let o=n.caption.split(`
`).filter(r=>r!==de);n.caption=[...e?[de]:[],...o].join(`
`)}async function S(n,e){n.app.shell.activateById(e.notebook.id);let t=gt(e.notebook);if(t<0){await n.openPanel(e);return}let{content:o}=e.notebook;o.mode="command",o.activeCellIndex=t,await o.scrollToItem(t);for(let r=0;r<mt;r++){await new Promise(requestAnimationFrame);let s=ue(o.widgets[t]?.node);s?.scrollIntoView({block:"nearest"}),[...s?.querySelectorAll("button, input, textarea")??[]].find(({offsetParent:c})=>c!==null)?.focus({preventScroll:!0})}}function gt({content:n}){return n.widgets.findIndex(e=>ue(e.node))}function ue(n){return n?.querySelector(".ia-root [role=dialog]")}var le,mt,de,P=d(()=>{"use strict";a();C();le="indus-mod-asks",mt=5,de="The agent asks a question here"});var pe,g,he=d(()=>{"use strict";a();pe="%pip install indus_nb",g=class{constructor(e){i(this,"link",e);i(this,"node",document.createElement("div"));i(this,"button",document.createElement("button"));i(this,"printed",document.createElement("pre"));let t=document.createElement("code");t.textContent=pe,this.button.className="jp-mod-styled jp-mod-accept",this.button.textContent="Install it",this.button.onclick=()=>this.install(),this.printed.setAttribute("role","log"),this.printed.tabIndex=0,this.printed.setAttribute("aria-label","What the installation prints"),this.printed.hidden=!0,this.node.className="indus_nb-install",this.node.append(t,this.button,this.printed)}async install(){let e=this.link.notebook.sessionContext.session?.kernel;if(e){this.button.disabled=!0,this.printed.hidden=!1,this.printed.textContent=`Installing…
`;try{await this.run(e),await this.link.ensure()}catch(t){this.print(String(t))}this.button.disabled=!1}}async run(e){let t=e.requestExecute({code:pe,store_history:!1,allow_stdin:!1});t.onIOPub=({header:o,content:r})=>{o.msg_type==="stream"&&this.print(r.text)},await t.done}print(e){this.printed.textContent=`${this.printed.textContent}${e}`.slice(-2e3),this.printed.scrollTop=this.printed.scrollHeight}};i(g,"sentence","The package indus_nb is not installed where this notebook's kernel runs. This line does it:")});function E(n,e){me.set(e,n)}function fe(n){n.forEach(e=>{E(e,e.node)}),n.widgetAdded.connect((e,t)=>E(t,t.node)),globalThis[bt]=(e,t)=>(e.map(kt).find(r=>r&&!r.isDisposed)??n.find(({sessionContext:r})=>r.session?.kernel?.clientId===t))?.context}function kt(n){for(let e=n;e;e=e.parentElement){let t=me.get(e);if(t)return t}}var me,bt,R=d(()=>{"use strict";a();me=new WeakMap,bt=Symbol.for("indus_nb notebook")});var _,O,ge,be,yt,I,ke=d(()=>{"use strict";a();_=require("@lumino/widgets");he();R();O="application/vnd.jupyter.widget-view+json",ge="textarea.ia-text",be={none:"The kernel is on its way.","no-kernel":"This notebook has no kernel. Start one, and the agent comes with it.","not-python":"The agent works in Python kernels; this notebook has another one.",waiting:"The kernel is busy: the agent comes when the cell has ended.",loading:"The agent is on its way.",ready:"The agent is on its way.",failed:"The agent could not be opened."},yt="This page cannot show widgets: install the package jupyterlab_widgets where Jupyter itself runs.",I=class extends _.Widget{constructor(t){super();i(this,"link",t);i(this,"said",document.createElement("p"));i(this,"installer");i(this,"view",null);i(this,"shown",null);i(this,"asked",!1);i(this,"begun",!1);this.addClass("indus_nb-Chat"),this.layout=new _.PanelLayout,this.installer=new g(t),this.said.className="indus_nb-said",this.said.setAttribute("role","status"),this.node.append(this.said,this.installer.node),E(t.notebook,this.node),t.changed.connect(this.follow,this)}begin(){this.begun=!0,this.asked&&=!this.link.state.kernel?.error,this.follow(),this.link.ensure()}focusWhenThere(){let t=this.node.querySelector(ge);if(t){t.focus();return}let o=new MutationObserver(()=>{let r=this.node.querySelector(ge);r&&(o.disconnect(),r.focus())});o.observe(this.node,{childList:!0,subtree:!0})}dispose(){this.link.changed.disconnect(this.follow,this),super.dispose()}follow(){if(!this.begun)return;let{phase:t,kernel:o}=this.link.state;o&&!this.asked&&this.link.send({kind:"open_panel"}),this.asked=o!==null,this.showView(o?.panel??null);let r=this.view?"":this.sentence();this.said.hidden=r==="",this.said.textContent!==r&&(this.said.textContent=r),this.installer.node.hidden=t!=="not-installed"}sentence(){let{phase:t,problem:o,kernel:r}=this.link.state;if(t==="not-installed")return g.sentence;if(r?.panel)return yt;let s=r?.error??o;return s?`${be.failed} ${s}`:be[t]}showView(t){t!==this.shown&&(this.shown=t,this.view?.dispose(),this.view=t===null?null:this.render(t),this.view&&this.layout.addWidget(this.view))}render(t){let{rendermime:o}=this.link.notebook.content,r={[O]:{version_major:2,version_minor:0,model_id:t}},s=o.createModel({data:r,trusted:!0});if(!o.mimeTypes.includes(O))return null;let l=o.createRenderer(O);return l.addClass("indus_nb-View"),l.renderModel(s),l}}});var ye,B,we=d(()=>{"use strict";a();ye=require("@jupyterlab/ui-components"),B=new ye.LabIcon({name:"indus_nb:agent",svgstr:`<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
  <path class="jp-icon3" fill="#616161" d="M2.5 2h7v1.5h-7v7h2v1.9l2.6-1.9h5.4V8H14v2.5c0 .8-.7 1.5-1.5 1.5H7.6L3
  15.3V12h-.5C1.7 12 1 11.300 1 10.500v-7C1 2.700 1.700 2 2.500 2zM13 0l.8 2.200L16 3l-2.200.8L13 6l-.8-2.200L10 3l2.200-.8z"/>
</svg>`})});function ve(n,e,t){let o=new H(e);n.shell.add(o,"right",{rank:wt,type:W}),t?.add(o,K),n.commands.addCommand(k,{label:"Open Agent Panel",caption:"Talk to the agent in the kernel of the notebook in front",icon:B,execute:()=>n.shell.activateById(K)})}var L,k,K,W,wt,H,q=d(()=>{"use strict";a();L=require("@lumino/widgets");ke();we();k="indus_nb:open-panel",K="indus_nb-panel",W="Agent",wt=900;H=class extends L.Widget{constructor(t){super();i(this,"links",t);i(this,"chats",new Map);i(this,"none",document.createElement("p"));this.id=K,this.addClass("indus_nb-SidePanel"),this.title.icon=B,this.title.caption=W,this.node.setAttribute("role","region"),this.node.setAttribute("aria-label",W),this.none.className="indus_nb-said",this.none.textContent="Open a notebook to talk to the agent in its kernel.",this.node.append(this.none),this.layout=new L.PanelLayout,t.currentChanged.connect(this.follow,this)}onBeforeShow(){this.follow()}onActivateRequest(){this.current()?.focusWhenThere()}current(){let{current:t}=this.links;if(!t)return null;let o=this.chats.get(t.notebook);if(o)return o;let r=new I(t);return this.chats.set(t.notebook,r),this.layout.addWidget(r),t.notebook.disposed.connect(s=>{this.chats.delete(s),r.dispose()}),r}follow(){if(this.isHidden)return;let t=this.current();for(let o of this.chats.values())o.setHidden(o!==t);this.none.hidden=t!==null,t?.begin()}}});function Pe(n,e,t){let{app:o,links:r}=n;for(let[s,l]of Object.entries(vt(t))){let c=`indus_nb:${s}`,{run:p,can:h,...b}=l;o.commands.addCommand(c,{...b,isEnabled:()=>r.current!==null&&(h?.(r.current)??!0),isVisible:()=>r.current!==null,execute:()=>r.current&&p(n,r.current)}),e?.addItem({command:c,category:xe})}e?.addItem({command:k,category:xe})}function vt(n){return{fix:{label:"Fix the Error of This Cell",run:(e,t)=>Se(e,t,"fix"),can:Ce},explain:{label:"Explain the Error of This Cell",run:(e,t)=>Se(e,t,"explain"),can:Ce},stop:{label:"Stop the Agent",run:(e,t)=>t.send({kind:"stop"}),can:({state:e})=>e.kernel!==null&&e.kernel.phase!=="idle"},"go-to-question":{label:"Go to the Agent's Question",run:S,can:f},"new-conversation":{label:"Begin a New Conversation",run:xt},"attach-selection":{label:"Attach the Selection to the Prompt",run:Z,can:e=>F(e)!==""},"attach-cell":{label:"Attach This Cell to the Prompt",run:ee,can:({notebook:e})=>e.content.activeCell!==null},"attach-variable":{label:"Attach a Variable to the Prompt…",run:ne},...n&&{"attach-file":{label:"Attach to the Agent's Prompt",run:(e,t)=>te(e,t,n)}}}}function Ee({notebook:n}){let e=n.content.activeCell;return e?.model.type==="code"?e:null}function Ce(n){let e=Ee(n);return e!==null&&M(e)!==null}async function Se(n,e,t){let o=Ee(e);o&&await D(n,e,o,t)}async function xt(n,e){await n.openPanel(e)&&e.send({kind:"new_conversation"})}var xe,Ie=d(()=>{"use strict";a();re();$();P();q();xe="Agent"});var Le,J,Ct,St,_e,Pt,T,Te=d(()=>{"use strict";a();Le=require("@lumino/disposable"),J=require("@lumino/signaling"),Ct="indus_nb.door",St='__import__("importlib").import_module("indus_nb.front.notebook").open_doors()',_e='__import__("importlib.util").util.find_spec("indus_nb") is not None',Pt={phase:"none",problem:"",kernel:null},T=class{constructor(e,t){i(this,"notebook",e);i(this,"withComms",t);i(this,"held",Pt);i(this,"comm",null);i(this,"opening",null);i(this,"wanted",!1);i(this,"handlers",new Map);i(this,"signal",new J.Signal(this));i(this,"isDisposed",!1);let{sessionContext:o,context:r}=e;o.kernelChanged.connect(this.leave,this),o.statusChanged.connect(this.watch,this),r.pathChanged.connect(this.showNotebook,this)}get state(){return this.held}get changed(){return this.signal}ensure(){return this.wanted=!0,this.held.phase==="ready"?Promise.resolve(!0):(this.opening??=this.open().finally(()=>{this.opening=null}),this.opening)}loadFirst(){let e=this.notebook.sessionContext.session?.kernel;!e||this.opening||this.held.phase==="ready"||(this.wanted=!0,this.opening=Promise.all([this.load(e),this.connect(e)]).then(([t,o])=>t===null&&o).catch(()=>!1).finally(()=>{this.opening=null}))}send(e){this.comm&&!this.comm.isDisposed&&this.comm.send({...e})}on(e,t){let o=this.handlers.get(e)??new Set;return this.handlers.set(e,o.add(t)),new Le.DisposableDelegate(()=>o.delete(t))}dispose(){this.isDisposed||(this.isDisposed=!0,this.wanted=!1,this.drop(),J.Signal.clearData(this))}async open(){let{sessionContext:e}=this.notebook;await e.ready;let t=e.session?.kernel;if(!t)return this.set("no-kernel");this.set("loading");try{if((await t.info).language_info.name!=="python")return this.set("not-python");let o=await this.load(t);return o!==null?o?this.set("failed",o):this.set("not-installed"):await this.connect(t)}catch(o){return t.isDisposed||this.isDisposed?!1:this.set("failed",o instanceof Error?o.message:String(o))}}async load(e){e.status==="busy"&&this.set("waiting");let t=e.requestExecute({code:"",silent:!0,store_history:!1,allow_stdin:!1,user_expressions:{here:_e,loaded:`${St} if ${_e} else None`}});t.onIOPub=()=>{this.held.phase==="waiting"&&this.set("loading")};let o=await t.done;if(o.content.status!=="ok")return"The kernel did not load the package.";let{here:r,loaded:s}=o.content.user_expressions;return s?.status==="error"?`${s.ename}: ${s.evalue}`:r?.data?.["text/plain"]==="True"?null:""}connect(e){let t=this.withComms(e).createComm(Ct);return this.comm=t,new Promise(o=>{t.onMsg=({content:r})=>{this.receive(r.data),o(!0)},t.onClose=()=>{this.comm===t&&this.leave(),o(!1)},t.open({...this.shows(e)})})}receive(e){e.kind==="state"&&this.set("ready","",e);for(let t of this.handlers.get(e.kind)??[])t(e)}shows(e){return{kind:"shows",path:this.notebook.context.path,client:e.clientId}}showNotebook(){let e=this.notebook.sessionContext.session?.kernel;e&&this.send(this.shows(e))}watch(e,t){t==="restarting"||t==="autorestarting"||t==="dead"?this.drop():t==="idle"&&this.wanted&&this.held.phase==="none"&&this.ensure()}leave(){this.drop(),this.wanted&&this.ensure()}drop(){this.comm?.dispose(),this.comm=null,this.opening=null,this.set("none")}set(e,t="",o=null){return this.held={phase:e,problem:t,kernel:o},this.isDisposed||this.signal.emit(),e==="ready"}}});var Ae,A,Ne=d(()=>{"use strict";a();Ae=require("@lumino/signaling");Te();A=class{constructor(e,t){i(this,"app",e);i(this,"tracker",t);i(this,"links",new Map);i(this,"changed",new Ae.Signal(this));t.currentChanged.connect(()=>this.changed.emit())}of(e){let t=this.links.get(e);if(t)return t;let o=new T(e,r=>this.withComms(r));return this.links.set(e,o),e.disposed.connect(()=>{this.links.delete(e),o.dispose()}),o}get current(){let e=this.tracker.currentWidget;return e&&!e.isDisposed?this.of(e):null}get currentChanged(){return this.changed}withComms(e){if(e.handleComms)return e;for(let t of this.app.shell.widgets("main")){let o=t.sessionContext?.session?.kernel;if(o?.id===e.id&&o.handleComms)return o}return e}}});function Fe({links:n,options:e,tracker:t}){V.NotebookActions.executionScheduled.connect((o,{notebook:r,cell:s})=>{let l=t.find(({content:p})=>p===r);if(!l||!e.loadBeforeCells||!x(l))return;let c=s.model.sharedModel.getSource();Et.test(c)&&n.of(l).loadFirst()}),V.NotebookActions.executed.connect((o,{notebook:r,cell:s})=>{let l=t.find(({content:c})=>c===r);l&&It.test(s.model.sharedModel.getSource())&&n.of(l).ensure()})}var V,Et,It,je=d(()=>{"use strict";a();V=require("@jupyterlab/notebook");C();Et=/^\s*%{1,2}agent\b/,It=/^[ \t]*%(?:re)?load_ext[ \t]+indus_nb\b/m});var De,N,Me=d(()=>{"use strict";a();De=require("@lumino/signaling"),N=class{constructor(){i(this,"errorBar",!0);i(this,"statusItem",!0);i(this,"questionMark",!0);i(this,"loadBeforeCells",!0);i(this,"change",new De.Signal(this))}get changed(){return this.change}follow(e){let t=()=>{for(let o of["errorBar","statusItem","questionMark","loadBeforeCells"])this[o]=e.get(o).composite!==!1;this.change.emit()};e.changed.connect(t),t()}}});var Re,$e=d(()=>{Re=`.indus-error-bar {
  display: flex;
  gap: 6px;
  margin: 4px 0 6px calc(var(--jp-cell-prompt-width) + var(--jp-code-padding));
}
.indus-error-bar button {
  padding: 2px 10px;
  border: 1px solid var(--jp-border-color1);
  border-radius: 4px;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font: var(--jp-ui-font-size1) var(--jp-ui-font-family);
  line-height: 18px;
  cursor: pointer;
}
.indus-error-bar button:hover {
  background: var(--jp-layout-color2);
}
.indus-error-bar button:focus-visible,
.indus-status button:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: 1px;
}
.indus-status button {
  height: 100%;
  padding: 0 6px;
  border: 0;
  background: none;
  color: inherit;
  font: inherit;
  white-space: nowrap;
  cursor: pointer;
}
.indus-status button:hover {
  background: var(--jp-layout-color3);
}
.indus-status.indus-mod-asks button {
  background: #b45309;
  color: #fff;
}
.lm-TabBar-tab.indus-mod-asks .lm-TabBar-tabLabel::before {
  content: "?";
  display: inline-block;
  min-width: 14px;
  margin-right: 5px;
  border-radius: 7px;
  background: #b45309;
  color: #fff;
  font-size: 11px;
  font-weight: 700;
  line-height: 14px;
  text-align: center;
}
`});function Ke(n,e){let{links:t,options:o}=n,r=new Oe.Signal({}),s=new z(n),l=null,c=()=>{s.draw(l),r.emit()},p=()=>{l?.changed.disconnect(c),l=t.current,l?.changed.connect(c),c()};t.currentChanged.connect(p),o.changed.connect(c),p(),e.registerStatusItem("indus_nb:status",{item:s,align:"right",rank:50,isActive:()=>o.statusItem&&l!==null,activeStateChanged:r})}function At({kernel:n,phase:e}){return n?Lt[n.phase]:e==="loading"?"starts":""}function Nt(n){return n<.01?"< $0.01":`$${n.toFixed(2)}`}var Oe,Be,Lt,Tt,z,We=d(()=>{"use strict";a();Oe=require("@lumino/signaling"),Be=require("@lumino/widgets");P();Lt={idle:"idle",working:"works",asking:"asks"},Tt="What the requests of all conversations in this kernel have cost since midnight, or since it was started";z=class extends Be.Widget{constructor(t){super();i(this,"front",t);i(this,"button",document.createElement("button"));i(this,"link",null);this.addClass("indus-status"),this.button.type="button",this.button.addEventListener("click",()=>this.go()),this.node.append(this.button)}draw(t){if(this.link=t,!t)return;let{kernel:o}=t.state,r=o?.cost_today?`${Nt(o.cost_today)} today`:"";this.button.textContent=[`Agent ${At(t.state)}`.trim(),o?.model,r].filter(Boolean).join(" · "),this.button.title=[o?.question??"Open the agent's panel",r&&Tt].filter(Boolean).join(`
`),this.toggleClass("indus-mod-asks",f(t))}go(){this.link&&(f(this.link)?S(this.front,this.link):this.front.openPanel(this.link))}}});var qe,He=d(()=>{qe=`.indus_nb-SidePanel {
  display: flex;
  flex-direction: column;
  min-width: 300px !important;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
}

.indus_nb-Chat {
  display: flex;
  flex: 1;
  flex-direction: column;
  min-height: 0;
}

.indus_nb-SidePanel .lm-mod-hidden,
.indus_nb-SidePanel [hidden] {
  display: none;
}

.indus_nb-said {
  margin: 16px;
  line-height: 1.5;
  overflow-wrap: anywhere;
}

.indus_nb-install {
  display: flex;
  flex-direction: column;
  gap: 12px;
  align-items: flex-start;
  margin: 0 16px;
}

.indus_nb-install code,
.indus_nb-install pre {
  box-sizing: border-box;
  width: 100%;
  margin: 0;
  padding: 8px;
  border: 1px solid var(--jp-border-color2);
  overflow: auto;
  font-family: var(--jp-code-font-family);
  font-size: var(--jp-code-font-size);
}

.indus_nb-install pre {
  max-height: 240px;
  white-space: pre-wrap;
}

.indus_nb-View,
.indus_nb-View > *,
.indus_nb-View .ia-root {
  box-sizing: border-box;
  flex: 1;
  height: 100%;
  min-height: 0;
  margin: 0;
  overflow: hidden;
}

.indus_nb-View .ia-panel {
  height: 100%;
  min-height: 0;
  max-height: none;
  border: 0;
  border-radius: 0;
  resize: none;
}
`});var Ye={};st(Ye,{default:()=>Dt});var Ve,ze,Qe,Ge,Ue,Xe,Je,jt,Dt,Ze=d(()=>{"use strict";a();Ve=require("@jupyterlab/application"),ze=require("@jupyterlab/apputils"),Qe=require("@jupyterlab/filebrowser"),Ge=require("@jupyterlab/notebook"),Ue=require("@jupyterlab/settingregistry"),Xe=require("@jupyterlab/statusbar");Ie();$();Ne();je();P();Me();R();$e();q();We();He();Je="indus_nb:plugin",jt={id:Je,description:"A coding agent in the notebook's own kernel.",autoStart:!0,requires:[Ge.INotebookTracker],optional:[Ve.ILayoutRestorer,ze.ICommandPalette,Ue.ISettingRegistry,Xe.IStatusBar,Qe.IFileBrowserFactory],activate(n,e,t,o,r,s,l){let c=document.createElement("style");c.textContent=qe+Re,document.head.append(c);let p=new A(n,e);fe(e),ve(n,p,t);let h={app:n,tracker:e,links:p,options:new N,openPanel:async b=>(await n.commands.execute(k),b.ensure())};r?.load(Je).then(b=>h.options.follow(b)),Pe(h,o,l),se(h),ce(h),Fe(h),s&&Ke(h,s)}},Dt=jt});a();var tt={},Mt={init(n){tt=n},async get(){let n=await Promise.all(u.map(async e=>[e,await $t(e)]));return require.libraries=Object.fromEntries(n),()=>(Ze(),lt(Ye))}};async function $t(n){let e=Object.entries(tt[n]??{}),t=e.find(([,{loaded:o}])=>o)??e.sort(Rt)[0];if(!t)throw new Error(`indus_nb needs ${n}, which this application does not share.`);return(await t[1].get())()}function Rt([n],[e]){return e.localeCompare(n,"en",{numeric:!0})}var et=globalThis;et._JUPYTERLAB={...et._JUPYTERLAB,indus_nb:Mt};
})();
