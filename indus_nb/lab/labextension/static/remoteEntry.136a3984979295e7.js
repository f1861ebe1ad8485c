(()=>{const require=(name)=>require.libraries[name];
"use strict";var y=Object.defineProperty;var Yt=Object.getOwnPropertyDescriptor;var Zt=Object.getOwnPropertyNames;var te=Object.prototype.hasOwnProperty;var ee=(n,t,e)=>t in n?y(n,t,{enumerable:!0,configurable:!0,writable:!0,value:e}):n[t]=e;var c=(n,t,e)=>()=>{if(e)throw e[0];try{return n&&(t=n(n=0)),t}catch(o){throw e=[o],o}};var ne=(n,t)=>{for(var e in t)y(n,e,{get:t[e],enumerable:!0})},oe=(n,t,e,o)=>{if(t&&typeof t=="object"||typeof t=="function")for(let r of Zt(t))!te.call(n,r)&&r!==e&&y(n,r,{get:()=>t[r],enumerable:!(o=Yt(t,r))||o.enumerable});return n};var re=n=>oe(y({},"__esModule",{value:!0}),n);var i=(n,t,e)=>ee(n,typeof t!="symbol"?t+"":t,e);var u,a=c(()=>{u=["@jupyterlab/application","@jupyterlab/apputils","@jupyterlab/filebrowser","@jupyterlab/notebook","@jupyterlab/settingregistry","@jupyterlab/statusbar","@jupyterlab/ui-components","@lumino/disposable","@lumino/signaling","@lumino/widgets"]});function V(n,t){let e=s=>s.replace(/^[^/:]*:/,"").split("/").filter(Boolean),o=e(n),r=e(t).slice(0,-1);for(;r.length>0&&o.length>1&&r[0]===o[0];)r.shift(),o.shift();return[...r.map(()=>".."),...o].join("/")}function z(n){return/\s/.test(n)?`"${n}"`:`@${n}`}var G=c(()=>{"use strict";a()});async function w(n,t,e){e&&await n.openPanel(t)&&t.send({kind:"insert",text:e})}function X(n,t){return w(n,t,et(T(t)))}function T({notebook:n}){let t=n.content.activeCell?.editor;if(t){let{start:o,end:r}=t.getSelection(),[s,l]=[t.getOffsetAt(o),t.getOffsetAt(r)].sort((p,h)=>p-h),d=t.model.sharedModel.getSource().slice(s,l);if(d)return d}let e=document.getSelection();return e&&n.node.contains(e.anchorNode)?e.toString():""}function Y(n,t){let e=t.notebook.content.activeCell;return e?w(n,t,se(e)):Promise.resolve()}function se({model:n}){let t=n.type==="code"?n.executionCount:null;return t===null?et(n.sharedModel.getSource()):`@cell ${t}`}function Z(n,t,e){let o=[...e.tracker.currentWidget?.selectedItems()??[]],{path:r}=t.notebook.context,s=o.map(l=>z(V(l.path,r)));return w(n,t,s.join(" "))}async function tt(n,t){if(!await n.openPanel(t))return;let e=(await ae(t)).map(({name:r,type:s})=>`${r}: ${s}`);if(e.length===0){await(0,m.showDialog)({title:U,body:"The kernel holds no variable of yours.",buttons:[m.Dialog.okButton()]});return}let{value:o}=await m.InputDialog.getItem({title:U,items:e,okLabel:"Attach"});o&&await w(n,t,`$${o.split(":")[0]}`)}function ae(n){return new Promise(t=>{let e=n.on("variables",({variables:o})=>{e.dispose(),t(o)});n.send({kind:"list_variables"})})}function et(n){let t=n.length>Q?`${n.slice(0,Q)}…`:n;if(t.trim()==="")return"";let e=Math.max(2,...[...t.matchAll(/`{3,}/g)].map(([r])=>r.length)),o="`".repeat(e+1);return`${o}
${t.replace(/\n$/,"")}
${o}
`}var m,Q,U,nt=c(()=>{"use strict";a();m=require("@jupyterlab/apputils");G();Q=4e3,U="Attach a Variable"});function v({tracker:n},t){n.forEach(t),n.widgetAdded.connect((e,o)=>t(o))}var A=c(()=>{"use strict";a()});function rt(n){v(n,t=>{let e=new F(n,t);t.disposed.connect(()=>e.dispose())})}async function N(n,t,e,o){let r=j(e);if(!r)return;let s=r.traceback.length>0?r.traceback.join(`
`):`${r.ename}: ${r.evalue}`,l=e.model.sharedModel.getSource();await n.openPanel(t)&&t.send({kind:o,cell:e.model.id,source:l.slice(0,ot),error:s.slice(-ot)})}function j(n){let t=it(n.model);return t<0?null:n.model.outputs.get(t).toJSON()}function it({outputs:n,sharedModel:t}){for(let e=n.length-1;e>=0;e--){if(n.get(e).type!=="error")continue;let{ename:o}=n.get(e).toJSON();return o==="KeyboardInterrupt"||le.test(t.getSource())?-1:e}return-1}function ce({content:n}){let t=n.model?.defaultKernelLanguage??"";return t===""||/python/i.test(t)}var ot,le,de,F,D=c(()=>{"use strict";a();A();ot=2e4,le=/^[ \t]*%{1,2}agent\b/m,de={fix:["Fix","Ask the agent to find the cause and to propose the mended cell"],explain:["Explain","Ask the agent why this cell failed; it changes nothing"]};F=class{constructor(t,e){i(this,"front",t);i(this,"notebook",e);i(this,"bars",new Map);i(this,"watched",new WeakSet);let{content:o}=e;o.modelChanged.connect(this.watchCells,this),o.modelContentChanged.connect(this.watchCells,this),t.options.changed.connect(this.drawAll,this),this.watchCells()}dispose(){this.front.options.changed.disconnect(this.drawAll,this),this.bars.clear()}get cells(){return this.notebook.content.widgets.filter(t=>t.model.type==="code")}watchCells(){for(let t of this.cells){if(this.watched.has(t))continue;this.watched.add(t);let e=()=>this.draw(t);t.model.outputs.changed.connect(e),t.disposed.connect(()=>this.bars.delete(t)),e()}}drawAll(){for(let t of this.cells)this.draw(t)}draw(t){let e=this.front.options.errorBar&&ce(this.notebook)?it(t.model):-1,{widgets:o}=t.outputArea,r=e<0?void 0:o[e]??o.at(-1),s=this.bars.get(t);if(!r)s?.remove(),this.bars.delete(t);else if(s?.previousSibling!==r.node){let l=s??this.bar(t);this.bars.set(t,l),r.node.after(l)}}bar(t){let e=document.createElement("div");return e.className="indus-error-bar",e.setAttribute("role","group"),e.setAttribute("aria-label","Ask the agent about this error"),e.dataset.lmSuppressShortcuts="true",e.append(...["fix","explain"].map(o=>this.button(t,o))),e}button(t,e){let o=document.createElement("button");return[o.textContent,o.title]=de[e],o.type="button",o.addEventListener("click",()=>{N(this.front,this.front.links.of(this.notebook),t,e)}),o}}});function lt(n){let{links:t,options:e}=n,o=new Set,r=()=>{let s=document.title.startsWith($)?document.title.slice($.length):document.title,l=o.size>0?$+s:s;document.title!==l&&(document.title=l)};v(n,s=>{let l=t.of(s),d=()=>{let p=e.questionMark&&!s.isDisposed&&f(l);ue(s,p),p?o.add(s):o.delete(s),r()};l.changed.connect(d),e.changed.connect(d),s.disposed.connect(()=>{e.changed.disconnect(d),d()}),d()}),new MutationObserver(r).observe(document.head,{childList:!0,subtree:!0,characterData:!0})}function f({state:n}){return n.kernel?.phase==="asking"}function ue({title:n},t){let e=n.className.split(" ").filter(r=>r&&r!==st);n.className=[...e,...t?[st]:[]].join(" ");let o=n.caption.split(`
`).filter(r=>r!==at);n.caption=[...t?[at]:[],...o].join(`
`)}async function x(n,t){n.app.shell.activateById(t.notebook.id);let e=pe(t.notebook);if(e<0){await n.openPanel(t);return}let{content:o}=t.notebook;await o.scrollToItem(e);let r=dt(o.widgets[e]?.node);r?.scrollIntoView({block:"nearest"}),r?.querySelector("button")?.focus({preventScroll:!0})}function pe({content:n}){return n.widgets.findIndex(t=>dt(t.node))}function dt(n){return n?.querySelector(".ia-root [role=dialog]")}var st,at,$,C=c(()=>{"use strict";a();A();st="indus-mod-asks",at="The agent asks a question here",$="(?) "});var ct,g,ut=c(()=>{"use strict";a();ct="%pip install indus_nb",g=class{constructor(t){i(this,"link",t);i(this,"node",document.createElement("div"));i(this,"button",document.createElement("button"));i(this,"printed",document.createElement("pre"));let e=document.createElement("code");e.textContent=ct,this.button.className="jp-mod-styled jp-mod-accept",this.button.textContent="Install it",this.button.onclick=()=>this.install(),this.printed.setAttribute("role","log"),this.printed.tabIndex=0,this.printed.setAttribute("aria-label","What the installation prints"),this.printed.hidden=!0,this.node.className="indus_nb-install",this.node.append(e,this.button,this.printed)}async install(){let t=this.link.notebook.sessionContext.session?.kernel;if(t){this.button.disabled=!0,this.printed.hidden=!1,this.printed.textContent=`Installing…
`;try{await this.run(t),await this.link.ensure()}catch(e){this.print(String(e))}this.button.disabled=!1}}async run(t){let e=t.requestExecute({code:ct,store_history:!1,allow_stdin:!1});e.onIOPub=({header:o,content:r})=>{o.msg_type==="stream"&&this.print(r.text)},await e.done}print(t){this.printed.textContent=`${this.printed.textContent}${t}`.slice(-2e3),this.printed.scrollTop=this.printed.scrollHeight}};i(g,"sentence","The package indus_nb is not installed where this notebook's kernel runs. This line does it:")});var P,M,pt,ht,he,S,mt=c(()=>{"use strict";a();P=require("@lumino/widgets");ut();M="application/vnd.jupyter.widget-view+json",pt="textarea.ia-text",ht={none:"The kernel is on its way.","no-kernel":"This notebook has no kernel. Start one, and the agent comes with it.","not-python":"The agent works in Python kernels; this notebook has another one.",waiting:"The kernel is busy: the agent comes when the cell has ended.",loading:"The agent is on its way.",ready:"The agent is on its way.",failed:"The agent could not be opened."},he="This page cannot show widgets: install the package jupyterlab_widgets where Jupyter itself runs.",S=class extends P.Widget{constructor(e){super();i(this,"link",e);i(this,"said",document.createElement("p"));i(this,"installer");i(this,"view",null);i(this,"shown",null);i(this,"asked",!1);i(this,"begun",!1);this.addClass("indus_nb-Chat"),this.layout=new P.PanelLayout,this.installer=new g(e),this.said.className="indus_nb-said",this.said.setAttribute("role","status"),this.node.append(this.said,this.installer.node),e.changed.connect(this.follow,this)}begin(){this.begun=!0,this.asked&&=!this.link.state.kernel?.error,this.follow(),this.link.ensure()}focusWhenThere(){let e=this.node.querySelector(pt);if(e){e.focus();return}let o=new MutationObserver(()=>{let r=this.node.querySelector(pt);r&&(o.disconnect(),r.focus())});o.observe(this.node,{childList:!0,subtree:!0})}dispose(){this.link.changed.disconnect(this.follow,this),super.dispose()}follow(){if(!this.begun)return;let{phase:e,kernel:o}=this.link.state;o&&!this.asked&&this.link.send({kind:"open_panel"}),this.asked=o!==null,this.showView(o?.panel??null);let r=this.view?"":this.sentence();this.said.hidden=r==="",this.said.textContent!==r&&(this.said.textContent=r),this.installer.node.hidden=e!=="not-installed"}sentence(){let{phase:e,problem:o,kernel:r}=this.link.state;if(e==="not-installed")return g.sentence;if(r?.panel)return he;let s=r?.error??o;return s?`${ht.failed} ${s}`:ht[e]}showView(e){e!==this.shown&&(this.shown=e,this.view?.dispose(),this.view=e===null?null:this.render(e),this.view&&this.layout.addWidget(this.view))}render(e){let{rendermime:o}=this.link.notebook.content,r={[M]:{version_major:2,version_minor:0,model_id:e}},s=o.createModel({data:r,trusted:!0});if(!o.mimeTypes.includes(M))return null;let l=o.createRenderer(M);return l.addClass("indus_nb-View"),l.renderModel(s),l}}});var ft,R,gt=c(()=>{"use strict";a();ft=require("@jupyterlab/ui-components"),R=new ft.LabIcon({name:"indus_nb:agent",svgstr:`<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
  <path class="jp-icon3" fill="#616161" d="M2.5 2h7v1.5h-7v7h2v1.9l2.6-1.9h5.4V8H14v2.5c0 .8-.7 1.5-1.5 1.5H7.6L3
  15.3V12h-.5C1.7 12 1 11.300 1 10.500v-7C1 2.700 1.700 2 2.500 2zM13 0l.8 2.200L16 3l-2.200.8L13 6l-.8-2.200L10 3l2.200-.8z"/>
</svg>`})});function bt(n,t,e){let o=new K(t);n.shell.add(o,"right",{rank:me,type:B}),e?.add(o,O),n.commands.addCommand(k,{label:"Open Agent Panel",caption:"Talk to the agent in the kernel of the notebook in front",icon:R,execute:()=>n.shell.activateById(O)})}var I,k,O,B,me,K,W=c(()=>{"use strict";a();I=require("@lumino/widgets");mt();gt();k="indus_nb:open-panel",O="indus_nb-panel",B="Agent",me=900;K=class extends I.Widget{constructor(e){super();i(this,"links",e);i(this,"chats",new Map);i(this,"none",document.createElement("p"));this.id=O,this.addClass("indus_nb-SidePanel"),this.title.icon=R,this.title.caption=B,this.node.setAttribute("role","region"),this.node.setAttribute("aria-label",B),this.none.className="indus_nb-said",this.none.textContent="Open a notebook to talk to the agent in its kernel.",this.node.append(this.none),this.layout=new I.PanelLayout,e.currentChanged.connect(this.follow,this)}onBeforeShow(){this.follow()}onActivateRequest(){this.current()?.focusWhenThere()}current(){let{current:e}=this.links;if(!e)return null;let o=this.chats.get(e.notebook);if(o)return o;let r=new S(e);return this.chats.set(e.notebook,r),this.layout.addWidget(r),e.notebook.disposed.connect(s=>{this.chats.delete(s),r.dispose()}),r}follow(){if(this.isHidden)return;let e=this.current();for(let o of this.chats.values())o.setHidden(o!==e);this.none.hidden=e!==null,e?.begin()}}});function vt(n,t,e){let{app:o,links:r}=n;for(let[s,l]of Object.entries(fe(e))){let d=`indus_nb:${s}`,{run:p,can:h,...b}=l;o.commands.addCommand(d,{...b,isEnabled:()=>r.current!==null&&(h?.(r.current)??!0),isVisible:()=>r.current!==null,execute:()=>r.current&&p(n,r.current)}),t?.addItem({command:d,category:kt})}t?.addItem({command:k,category:kt})}function fe(n){return{fix:{label:"Fix the Error of This Cell",run:(t,e)=>wt(t,e,"fix"),can:yt},explain:{label:"Explain the Error of This Cell",run:(t,e)=>wt(t,e,"explain"),can:yt},stop:{label:"Stop the Agent",run:(t,e)=>e.send({kind:"stop"}),can:({state:t})=>t.kernel!==null&&t.kernel.phase!=="idle"},"go-to-question":{label:"Go to the Agent's Question",run:x,can:f},"new-conversation":{label:"Begin a New Conversation",run:ge},"attach-selection":{label:"Attach the Selection to the Prompt",run:X,can:t=>T(t)!==""},"attach-cell":{label:"Attach This Cell to the Prompt",run:Y,can:({notebook:t})=>t.content.activeCell!==null},"attach-variable":{label:"Attach a Variable to the Prompt…",run:tt},...n&&{"attach-file":{label:"Attach to the Agent's Prompt",run:(t,e)=>Z(t,e,n)}}}}function xt({notebook:n}){let t=n.content.activeCell;return t?.model.type==="code"?t:null}function yt(n){let t=xt(n);return t!==null&&j(t)!==null}async function wt(n,t,e){let o=xt(t);o&&await N(n,t,o,e)}async function ge(n,t){await n.openPanel(t)&&t.send({kind:"new_conversation"})}var kt,Ct=c(()=>{"use strict";a();nt();D();C();W();kt="Agent"});var Pt,H,be,ke,St,ye,E,It=c(()=>{"use strict";a();Pt=require("@lumino/disposable"),H=require("@lumino/signaling"),be="indus_nb.door",ke='__import__("importlib").import_module("indus_nb.front.notebook").open_doors()',St='__import__("importlib.util").util.find_spec("indus_nb") is not None',ye={phase:"none",problem:"",kernel:null},E=class{constructor(t,e){i(this,"notebook",t);i(this,"withComms",e);i(this,"held",ye);i(this,"comm",null);i(this,"opening",null);i(this,"wanted",!1);i(this,"handlers",new Map);i(this,"signal",new H.Signal(this));i(this,"isDisposed",!1);let{sessionContext:o,context:r}=t;o.kernelChanged.connect(this.leave,this),o.statusChanged.connect(this.watch,this),r.pathChanged.connect(this.showNotebook,this)}get state(){return this.held}get changed(){return this.signal}ensure(){return this.wanted=!0,this.held.phase==="ready"?Promise.resolve(!0):(this.opening??=this.open().finally(()=>{this.opening=null}),this.opening)}loadFirst(){let t=this.notebook.sessionContext.session?.kernel;!t||this.opening||this.held.phase==="ready"||(this.wanted=!0,this.opening=this.open(this.load(t)).finally(()=>{this.opening=null}))}send(t){this.comm&&!this.comm.isDisposed&&this.comm.send({...t})}on(t,e){let o=this.handlers.get(t)??new Set;return this.handlers.set(t,o.add(e)),new Pt.DisposableDelegate(()=>o.delete(e))}dispose(){this.isDisposed||(this.isDisposed=!0,this.wanted=!1,this.drop(),H.Signal.clearData(this))}async open(t){let{sessionContext:e}=this.notebook;await e.ready;let o=e.session?.kernel;if(!o)return this.set("no-kernel");this.set("loading");try{if((await o.info).language_info.name!=="python")return this.set("not-python");let r=await(t??this.load(o));return r!==null?r?this.set("failed",r):this.set("not-installed"):await this.connect(o)}catch(r){return o.isDisposed||this.isDisposed?!1:this.set("failed",r instanceof Error?r.message:String(r))}}async load(t){t.status==="busy"&&this.set("waiting");let e=t.requestExecute({code:"",silent:!0,store_history:!1,allow_stdin:!1,user_expressions:{here:St,loaded:`${ke} if ${St} else None`}});e.onIOPub=()=>{this.set("loading")};let o=await e.done;if(o.content.status!=="ok")return"The kernel did not load the package.";let{here:r,loaded:s}=o.content.user_expressions;return s?.status==="error"?`${s.ename}: ${s.evalue}`:r?.data?.["text/plain"]==="True"?null:""}connect(t){let e=this.withComms(t).createComm(be);return this.comm=e,new Promise(o=>{e.onMsg=({content:r})=>{this.receive(r.data),o(!0)},e.onClose=()=>{this.comm===e&&this.leave(),o(!1)},e.open({...this.shows(t)})})}receive(t){t.kind==="state"&&this.set("ready","",t);for(let e of this.handlers.get(t.kind)??[])e(t)}shows(t){return{kind:"shows",path:this.notebook.context.path,client:t.clientId}}showNotebook(){let t=this.notebook.sessionContext.session?.kernel;t&&this.send(this.shows(t))}watch(t,e){e==="restarting"||e==="autorestarting"||e==="dead"?this.drop():e==="idle"&&this.wanted&&this.held.phase==="none"&&this.ensure()}leave(){this.drop(),this.wanted&&this.ensure()}drop(){this.comm?.dispose(),this.comm=null,this.opening=null,this.set("none")}set(t,e="",o=null){return this.held={phase:t,problem:e,kernel:o},this.isDisposed||this.signal.emit(),t==="ready"}}});var Et,L,Lt=c(()=>{"use strict";a();Et=require("@lumino/signaling");It();L=class{constructor(t,e){i(this,"app",t);i(this,"tracker",e);i(this,"links",new Map);i(this,"changed",new Et.Signal(this));e.currentChanged.connect(()=>this.changed.emit())}of(t){let e=this.links.get(t);if(e)return e;let o=new E(t,r=>this.withComms(r));return this.links.set(t,o),t.disposed.connect(()=>{this.links.delete(t),o.dispose()}),o}get current(){let t=this.tracker.currentWidget;return t&&!t.isDisposed?this.of(t):null}get currentChanged(){return this.changed}withComms(t){if(t.handleComms)return t;for(let e of this.app.shell.widgets("main")){let o=e.sessionContext?.session?.kernel;if(o?.id===t.id&&o.handleComms)return o}return t}}});function _t({links:n,options:t,tracker:e}){q.NotebookActions.executionScheduled.connect((o,{notebook:r,cell:s})=>{let l=e.find(({content:p})=>p===r);if(!l||!t.loadBeforeCells)return;let d=s.model.sharedModel.getSource();we.test(d)&&n.of(l).loadFirst()}),q.NotebookActions.executed.connect((o,{notebook:r,cell:s})=>{let l=e.find(({content:d})=>d===r);l&&ve.test(s.model.sharedModel.getSource())&&n.of(l).ensure()})}var q,we,ve,Tt=c(()=>{"use strict";a();q=require("@jupyterlab/notebook"),we=/^\s*%{1,2}agent\b/,ve=/^[ \t]*%(?:re)?load_ext[ \t]+indus_nb\b/m});var At,_,Ft=c(()=>{"use strict";a();At=require("@lumino/signaling"),_=class{constructor(){i(this,"errorBar",!0);i(this,"statusItem",!0);i(this,"questionMark",!0);i(this,"loadBeforeCells",!0);i(this,"change",new At.Signal(this))}get changed(){return this.change}follow(t){let e=()=>{for(let o of["errorBar","statusItem","questionMark","loadBeforeCells"])this[o]=t.get(o).composite!==!1;this.change.emit()};t.changed.connect(e),e()}}});var jt,Nt=c(()=>{jt=`.indus-error-bar {
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
`});function Mt(n,t){let{links:e,options:o}=n,r=new Dt.Signal({}),s=new J(n),l=null,d=()=>{s.draw(l),r.emit()},p=()=>{l?.changed.disconnect(d),l=e.current,l?.changed.connect(d),d()};e.currentChanged.connect(p),o.changed.connect(d),p(),t.registerStatusItem("indus_nb:status",{item:s,align:"right",rank:50,isActive:()=>o.statusItem&&l!==null,activeStateChanged:r})}function Pe({kernel:n,phase:t}){return n?Ce[n.phase]:t==="loading"?"starts":""}function Ie(n){return n<.01?"< $0.01":`$${n.toFixed(2)}`}var Dt,$t,Ce,Se,J,Rt=c(()=>{"use strict";a();Dt=require("@lumino/signaling"),$t=require("@lumino/widgets");C();Ce={idle:"idle",working:"works",asking:"asks"},Se="What the requests of all conversations in this kernel have cost since midnight, or since it was started";J=class extends $t.Widget{constructor(e){super();i(this,"front",e);i(this,"button",document.createElement("button"));i(this,"link",null);this.addClass("indus-status"),this.button.type="button",this.button.addEventListener("click",()=>this.go()),this.node.append(this.button)}draw(e){if(this.link=e,!e)return;let{kernel:o}=e.state,r=o?.cost_today?`${Ie(o.cost_today)} today`:"";this.button.textContent=[`Agent ${Pe(e.state)}`.trim(),o?.model,r].filter(Boolean).join(" · "),this.button.title=[o?.question??"Open the agent's panel",r&&Se].filter(Boolean).join(`
`),this.toggleClass("indus-mod-asks",f(e))}go(){this.link&&(f(this.link)?x(this.front,this.link):this.front.openPanel(this.link))}}});var Bt,Ot=c(()=>{Bt=`.indus_nb-SidePanel {
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
`});var Gt={};ne(Gt,{default:()=>_e});var Wt,Ht,qt,Jt,Vt,zt,Kt,Le,_e,Qt=c(()=>{"use strict";a();Wt=require("@jupyterlab/application"),Ht=require("@jupyterlab/apputils"),qt=require("@jupyterlab/filebrowser"),Jt=require("@jupyterlab/notebook"),Vt=require("@jupyterlab/settingregistry"),zt=require("@jupyterlab/statusbar");Ct();D();Lt();Tt();C();Ft();Nt();W();Rt();Ot();Kt="indus_nb:plugin",Le={id:Kt,description:"A coding agent in the notebook's own kernel.",autoStart:!0,requires:[Jt.INotebookTracker],optional:[Wt.ILayoutRestorer,Ht.ICommandPalette,Vt.ISettingRegistry,zt.IStatusBar,qt.IFileBrowserFactory],activate(n,t,e,o,r,s,l){let d=document.createElement("style");d.textContent=Bt+jt,document.head.append(d);let p=new L(n,t);bt(n,p,e);let h={app:n,tracker:t,links:p,options:new _,openPanel:async b=>(await n.commands.execute(k),b.ensure())};r?.load(Kt).then(b=>h.options.follow(b)),vt(h,o,l),rt(h),lt(h),_t(h),s&&Mt(h,s)}},_e=Le});a();var Xt={},Te={init(n){Xt=n},async get(){let n=await Promise.all(u.map(async t=>[t,await Ae(t)]));return require.libraries=Object.fromEntries(n),()=>(Qt(),re(Gt))}};async function Ae(n){let t=Object.entries(Xt[n]??{}),e=t.find(([,{loaded:o}])=>o)??t.sort(Fe)[0];if(!e)throw new Error(`indus_nb needs ${n}, which this application does not share.`);return(await e[1].get())()}function Fe([n],[t]){return t.localeCompare(n,"en",{numeric:!0})}var Ut=globalThis;Ut._JUPYTERLAB={...Ut._JUPYTERLAB,indus_nb:Te};
})();
