(()=>{const require=(name)=>require.libraries[name];
"use strict";var k=Object.defineProperty;var Xt=Object.getOwnPropertyDescriptor;var Yt=Object.getOwnPropertyNames;var Zt=Object.prototype.hasOwnProperty;var te=(n,t,e)=>t in n?k(n,t,{enumerable:!0,configurable:!0,writable:!0,value:e}):n[t]=e;var c=(n,t,e)=>()=>{if(e)throw e[0];try{return n&&(t=n(n=0)),t}catch(o){throw e=[o],o}};var ee=(n,t)=>{for(var e in t)k(n,e,{get:t[e],enumerable:!0})},ne=(n,t,e,o)=>{if(t&&typeof t=="object"||typeof t=="function")for(let r of Yt(t))!Zt.call(n,r)&&r!==e&&k(n,r,{get:()=>t[r],enumerable:!(o=Xt(t,r))||o.enumerable});return n};var oe=n=>ne(k({},"__esModule",{value:!0}),n);var i=(n,t,e)=>te(n,typeof t!="symbol"?t+"":t,e);var u,l=c(()=>{u=["@jupyterlab/application","@jupyterlab/apputils","@jupyterlab/filebrowser","@jupyterlab/notebook","@jupyterlab/settingregistry","@jupyterlab/statusbar","@jupyterlab/ui-components","@lumino/disposable","@lumino/signaling","@lumino/widgets"]});function J(n,t){let e=s=>s.replace(/^[^/:]*:/,"").split("/").filter(Boolean),o=e(n),r=e(t).slice(0,-1);for(;r.length>0&&o.length>1&&r[0]===o[0];)r.shift(),o.shift();return[...r.map(()=>".."),...o].join("/")}function V(n){return/\s/.test(n)?`"${n}"`:`@${n}`}var z=c(()=>{"use strict";l()});async function y(n,t,e){e&&await n.openPanel(t)&&t.send({kind:"insert",text:e})}function U(n,t){return y(n,t,tt(_(t)))}function _({notebook:n}){let t=n.content.activeCell?.editor;if(t){let{start:o,end:r}=t.getSelection(),[s,a]=[t.getOffsetAt(o),t.getOffsetAt(r)].sort((p,h)=>p-h),d=t.model.sharedModel.getSource().slice(s,a);if(d)return d}let e=document.getSelection();return e&&n.node.contains(e.anchorNode)?e.toString():""}function X(n,t){let e=t.notebook.content.activeCell;return e?y(n,t,ie(e)):Promise.resolve()}function ie({model:n}){let t=n.type==="code"?n.executionCount:null;return t===null?tt(n.sharedModel.getSource()):`@cell ${t}`}function Y(n,t,e){let o=[...e.tracker.currentWidget?.selectedItems()??[]],{path:r}=t.notebook.context,s=o.map(a=>V(J(a.path,r)));return y(n,t,s.join(" "))}async function Z(n,t){if(!await n.openPanel(t))return;let o=(await se(t)).map(({name:a,type:d})=>`${a}: ${d}`);if(o.length===0)return;let{value:r}=await Q.InputDialog.getItem({title:"Attach a variable",items:o,okLabel:"Attach",editable:!0}),s=r?.split(":")[0]?.trim();s&&await y(n,t,`$${s}`)}function se(n){return new Promise(t=>{let e=n.on("variables",({variables:o})=>{e.dispose(),t(o)});n.send({kind:"list_variables"})})}function tt(n){let t=n.length>G?`${n.slice(0,G)}…`:n;if(t.trim()==="")return"";let e=Math.max(2,...[...t.matchAll(/`{3,}/g)].map(([r])=>r.length)),o="`".repeat(e+1);return`${o}
${t.replace(/\n$/,"")}
${o}
`}var Q,G,et=c(()=>{"use strict";l();Q=require("@jupyterlab/apputils");z();G=4e3});function v({tracker:n},t){n.forEach(t),n.widgetAdded.connect((e,o)=>t(o))}var T=c(()=>{"use strict";l()});function ot(n){v(n,t=>{let e=new A(n,t);t.disposed.connect(()=>e.dispose())})}async function F(n,t,e,o){let r=N(e);if(!r)return;let s=r.traceback.length>0?r.traceback.join(`
`):`${r.ename}: ${r.evalue}`,a=e.model.sharedModel.getSource();await n.openPanel(t)&&t.send({kind:o,cell:e.model.id,source:a.slice(0,nt),error:s.slice(-nt)})}function N(n){let t=rt(n.model);return t<0?null:n.model.outputs.get(t).toJSON()}function rt({outputs:n,sharedModel:t}){for(let e=n.length-1;e>=0;e--){if(n.get(e).type!=="error")continue;let{ename:o}=n.get(e).toJSON();return o==="KeyboardInterrupt"||ae.test(t.getSource())?-1:e}return-1}function de({content:n}){let t=n.model?.defaultKernelLanguage??"";return t===""||/python/i.test(t)}var nt,ae,le,A,j=c(()=>{"use strict";l();T();nt=2e4,ae=/^[ \t]*%{1,2}agent\b/m,le={fix:["Fix","Ask the agent to find the cause and to propose the mended cell"],explain:["Explain","Ask the agent why this cell failed; it changes nothing"]};A=class{constructor(t,e){i(this,"front",t);i(this,"notebook",e);i(this,"bars",new Map);i(this,"watched",new WeakSet);let{content:o}=e;o.modelChanged.connect(this.watchCells,this),o.modelContentChanged.connect(this.watchCells,this),t.options.changed.connect(this.drawAll,this),this.watchCells()}dispose(){this.front.options.changed.disconnect(this.drawAll,this),this.bars.clear()}get cells(){return this.notebook.content.widgets.filter(t=>t.model.type==="code")}watchCells(){for(let t of this.cells){if(this.watched.has(t))continue;this.watched.add(t);let e=()=>this.draw(t);t.model.outputs.changed.connect(e),t.disposed.connect(()=>this.bars.delete(t)),e()}}drawAll(){for(let t of this.cells)this.draw(t)}draw(t){let e=this.front.options.errorBar&&de(this.notebook)?rt(t.model):-1,{widgets:o}=t.outputArea,r=e<0?void 0:o[e]??o.at(-1),s=this.bars.get(t);if(!r)s?.remove(),this.bars.delete(t);else if(s?.previousSibling!==r.node){let a=s??this.bar(t);this.bars.set(t,a),r.node.after(a)}}bar(t){let e=document.createElement("div");return e.className="indus-error-bar",e.setAttribute("role","group"),e.setAttribute("aria-label","Ask the agent about this error"),e.dataset.lmSuppressShortcuts="true",e.append(...["fix","explain"].map(o=>this.button(t,o))),e}button(t,e){let o=document.createElement("button");return[o.textContent,o.title]=le[e],o.type="button",o.addEventListener("click",()=>{F(this.front,this.front.links.of(this.notebook),t,e)}),o}}});function at(n){let{links:t,options:e}=n,o=new Set,r=()=>{let s=document.title.startsWith(D)?document.title.slice(D.length):document.title,a=o.size>0?D+s:s;document.title!==a&&(document.title=a)};v(n,s=>{let a=t.of(s),d=()=>{let p=e.questionMark&&!s.isDisposed&&m(a);ce(s,p),p?o.add(s):o.delete(s),r()};a.changed.connect(d),e.changed.connect(d),s.disposed.connect(()=>{e.changed.disconnect(d),d()}),d()}),new MutationObserver(r).observe(document.head,{childList:!0,subtree:!0,characterData:!0})}function m({state:n}){return n.kernel?.phase==="asking"}function ce({title:n},t){let e=n.className.split(" ").filter(r=>r&&r!==it);n.className=[...e,...t?[it]:[]].join(" ");let o=n.caption.split(`
`).filter(r=>r!==st);n.caption=[...t?[st]:[],...o].join(`
`)}async function w(n,t){n.app.shell.activateById(t.notebook.id);let e=ue(t.notebook);if(e<0){await n.openPanel(t);return}let{content:o}=t.notebook;await o.scrollToItem(e);let r=lt(o.widgets[e]?.node);r?.scrollIntoView({block:"nearest"}),r?.querySelector("button")?.focus({preventScroll:!0})}function ue({content:n}){return n.widgets.findIndex(t=>lt(t.node))}function lt(n){return n?.querySelector(".ia-root [role=dialog]")}var it,st,D,x=c(()=>{"use strict";l();T();it="indus-mod-asks",st="The agent asks a question here",D="(?) "});var dt,f,ct=c(()=>{"use strict";l();dt="%pip install indus_nb",f=class{constructor(t){i(this,"link",t);i(this,"node",document.createElement("div"));i(this,"button",document.createElement("button"));i(this,"printed",document.createElement("pre"));let e=document.createElement("code");e.textContent=dt,this.button.className="jp-mod-styled jp-mod-accept",this.button.textContent="Install it",this.button.onclick=()=>this.install(),this.printed.setAttribute("role","log"),this.printed.tabIndex=0,this.printed.setAttribute("aria-label","What the installation prints"),this.printed.hidden=!0,this.node.className="indus_nb-install",this.node.append(e,this.button,this.printed)}async install(){let t=this.link.notebook.sessionContext.session?.kernel;if(t){this.button.disabled=!0,this.printed.hidden=!1,this.printed.textContent=`Installing…
`;try{await this.run(t),await this.link.ensure()}catch(e){this.print(String(e))}this.button.disabled=!1}}async run(t){let e=t.requestExecute({code:dt,store_history:!1,allow_stdin:!1});e.onIOPub=({header:o,content:r})=>{o.msg_type==="stream"&&this.print(r.text)},await e.done}print(t){this.printed.textContent=`${this.printed.textContent}${t}`.slice(-2e3),this.printed.scrollTop=this.printed.scrollHeight}};i(f,"sentence","The package indus_nb is not installed where this notebook's kernel runs. This line does it:")});var S,$,ut,pt,pe,C,ht=c(()=>{"use strict";l();S=require("@lumino/widgets");ct();$="application/vnd.jupyter.widget-view+json",ut="textarea.ia-text",pt={none:"The kernel is on its way.","no-kernel":"This notebook has no kernel. Start one, and the agent comes with it.","not-python":"The agent works in Python kernels; this notebook has another one.",waiting:"The kernel is busy: the agent comes when the cell has ended.",loading:"The agent is on its way.",ready:"The agent is on its way.",failed:"The agent could not be opened."},pe="This page cannot show widgets: install the package jupyterlab_widgets where Jupyter itself runs.",C=class extends S.Widget{constructor(e){super();i(this,"link",e);i(this,"said",document.createElement("p"));i(this,"installer");i(this,"view",null);i(this,"shown",null);i(this,"asked",!1);i(this,"begun",!1);this.addClass("indus_nb-Chat"),this.layout=new S.PanelLayout,this.installer=new f(e),this.said.className="indus_nb-said",this.said.setAttribute("role","status"),this.node.append(this.said,this.installer.node),e.changed.connect(this.follow,this)}begin(){this.begun=!0,this.asked&&=!this.link.state.kernel?.error,this.follow(),this.link.ensure()}focusWhenThere(){let e=this.node.querySelector(ut);if(e){e.focus();return}let o=new MutationObserver(()=>{let r=this.node.querySelector(ut);r&&(o.disconnect(),r.focus())});o.observe(this.node,{childList:!0,subtree:!0})}dispose(){this.link.changed.disconnect(this.follow,this),super.dispose()}follow(){if(!this.begun)return;let{phase:e,kernel:o}=this.link.state;o&&!this.asked&&this.link.send({kind:"open_panel"}),this.asked=o!==null,this.showView(o?.panel??null);let r=this.view?"":this.sentence();this.said.hidden=r==="",this.said.textContent!==r&&(this.said.textContent=r),this.installer.node.hidden=e!=="not-installed"}sentence(){let{phase:e,problem:o,kernel:r}=this.link.state;if(e==="not-installed")return f.sentence;if(r?.panel)return pe;let s=r?.error??o;return s?`${pt.failed} ${s}`:pt[e]}showView(e){e!==this.shown&&(this.shown=e,this.view?.dispose(),this.view=e===null?null:this.render(e),this.view&&this.layout.addWidget(this.view))}render(e){let{rendermime:o}=this.link.notebook.content,r={[$]:{version_major:2,version_minor:0,model_id:e}},s=o.createModel({data:r,trusted:!0});if(!o.mimeTypes.includes($))return null;let a=o.createRenderer($);return a.addClass("indus_nb-View"),a.renderModel(s),a}}});var mt,M,ft=c(()=>{"use strict";l();mt=require("@jupyterlab/ui-components"),M=new mt.LabIcon({name:"indus_nb:agent",svgstr:`<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
  <path class="jp-icon3" fill="#616161" d="M2.5 2h7v1.5h-7v7h2v1.9l2.6-1.9h5.4V8H14v2.5c0 .8-.7 1.5-1.5 1.5H7.6L3
  15.3V12h-.5C1.7 12 1 11.300 1 10.500v-7C1 2.700 1.700 2 2.500 2zM13 0l.8 2.200L16 3l-2.200.8L13 6l-.8-2.200L10 3l2.200-.8z"/>
</svg>`})});function gt(n,t,e){let o=new B(t);n.shell.add(o,"right",{rank:he,type:O}),e?.add(o,R),n.commands.addCommand(b,{label:"Open Agent Panel",caption:"Talk to the agent in the kernel of the notebook in front",icon:M,execute:()=>n.shell.activateById(R)})}var P,b,R,O,he,B,K=c(()=>{"use strict";l();P=require("@lumino/widgets");ht();ft();b="indus_nb:open-panel",R="indus_nb-panel",O="Agent",he=900;B=class extends P.Widget{constructor(e){super();i(this,"links",e);i(this,"chats",new Map);i(this,"none",document.createElement("p"));this.id=R,this.addClass("indus_nb-SidePanel"),this.title.icon=M,this.title.caption=O,this.node.setAttribute("role","region"),this.node.setAttribute("aria-label",O),this.none.className="indus_nb-said",this.none.textContent="Open a notebook to talk to the agent in its kernel.",this.node.append(this.none),this.layout=new P.PanelLayout,e.currentChanged.connect(this.follow,this)}onBeforeShow(){this.follow()}onActivateRequest(){this.current()?.focusWhenThere()}current(){let{current:e}=this.links;if(!e)return null;let o=this.chats.get(e.notebook);if(o)return o;let r=new C(e);return this.chats.set(e.notebook,r),this.layout.addWidget(r),e.notebook.disposed.connect(s=>{this.chats.delete(s),r.dispose()}),r}follow(){if(this.isHidden)return;let e=this.current();for(let o of this.chats.values())o.setHidden(o!==e);this.none.hidden=e!==null,e?.begin()}}});function vt(n,t,e){let{app:o,links:r}=n;for(let[s,a]of Object.entries(me(e))){let d=`indus_nb:${s}`,{run:p,can:h,...g}=a;o.commands.addCommand(d,{...g,isEnabled:()=>r.current!==null&&(h?.(r.current)??!0),isVisible:()=>r.current!==null,execute:()=>r.current&&p(n,r.current)}),t?.addItem({command:d,category:bt})}t?.addItem({command:b,category:bt})}function me(n){return{fix:{label:"Fix the Error of This Cell",run:(t,e)=>yt(t,e,"fix"),can:kt},explain:{label:"Explain the Error of This Cell",run:(t,e)=>yt(t,e,"explain"),can:kt},stop:{label:"Stop the Agent",run:(t,e)=>e.send({kind:"stop"}),can:({state:t})=>t.kernel!==null&&t.kernel.phase!=="idle"},"go-to-question":{label:"Go to the Agent's Question",run:w,can:m},"new-conversation":{label:"Begin a New Conversation",run:fe},"attach-selection":{label:"Attach the Selection to the Prompt",run:U,can:t=>_(t)!==""},"attach-cell":{label:"Attach This Cell to the Prompt",run:X,can:({notebook:t})=>t.content.activeCell!==null},"attach-variable":{label:"Attach a Variable to the Prompt…",run:Z},...n&&{"attach-file":{label:"Attach to the Agent's Prompt",run:(t,e)=>Y(t,e,n)}}}}function wt({notebook:n}){let t=n.content.activeCell;return t?.model.type==="code"?t:null}function kt(n){let t=wt(n);return t!==null&&N(t)!==null}async function yt(n,t,e){let o=wt(t);o&&await F(n,t,o,e)}async function fe(n,t){await n.openPanel(t)&&t.send({kind:"new_conversation"})}var bt,xt=c(()=>{"use strict";l();et();j();x();K();bt="Agent"});var St,W,ge,be,Ct,ke,I,Pt=c(()=>{"use strict";l();St=require("@lumino/disposable"),W=require("@lumino/signaling"),ge="indus_nb.door",be='__import__("importlib").import_module("indus_nb.front.notebook").open_doors()',Ct='__import__("importlib.util").util.find_spec("indus_nb") is not None',ke={phase:"none",problem:"",kernel:null},I=class{constructor(t,e){i(this,"notebook",t);i(this,"withComms",e);i(this,"held",ke);i(this,"comm",null);i(this,"opening",null);i(this,"wanted",!1);i(this,"handlers",new Map);i(this,"signal",new W.Signal(this));i(this,"isDisposed",!1);let{sessionContext:o,context:r}=t;o.kernelChanged.connect(this.leave,this),o.statusChanged.connect(this.watch,this),r.pathChanged.connect(this.showNotebook,this)}get state(){return this.held}get changed(){return this.signal}ensure(){return this.wanted=!0,this.held.phase==="ready"?Promise.resolve(!0):(this.opening??=this.open().finally(()=>{this.opening=null}),this.opening)}loadFirst(){let t=this.notebook.sessionContext.session?.kernel;!t||this.opening||this.held.phase==="ready"||(this.wanted=!0,this.opening=this.open(this.load(t)).finally(()=>{this.opening=null}))}send(t){this.comm&&!this.comm.isDisposed&&this.comm.send({...t})}on(t,e){let o=this.handlers.get(t)??new Set;return this.handlers.set(t,o.add(e)),new St.DisposableDelegate(()=>o.delete(e))}dispose(){this.isDisposed||(this.isDisposed=!0,this.wanted=!1,this.drop(),W.Signal.clearData(this))}async open(t){let{sessionContext:e}=this.notebook;await e.ready;let o=e.session?.kernel;if(!o)return this.set("no-kernel");this.set("loading");try{if((await o.info).language_info.name!=="python")return this.set("not-python");let r=await(t??this.load(o));return r!==null?r?this.set("failed",r):this.set("not-installed"):await this.connect(o)}catch(r){return o.isDisposed||this.isDisposed?!1:this.set("failed",r instanceof Error?r.message:String(r))}}async load(t){t.status==="busy"&&this.set("waiting");let e=t.requestExecute({code:"",silent:!0,store_history:!1,allow_stdin:!1,user_expressions:{here:Ct,loaded:`${be} if ${Ct} else None`}});e.onIOPub=()=>{this.set("loading")};let o=await e.done;if(o.content.status!=="ok")return"The kernel did not load the package.";let{here:r,loaded:s}=o.content.user_expressions;return s?.status==="error"?`${s.ename}: ${s.evalue}`:r?.data?.["text/plain"]==="True"?null:""}connect(t){let e=this.withComms(t).createComm(ge);return this.comm=e,new Promise(o=>{e.onMsg=({content:r})=>{this.receive(r.data),o(!0)},e.onClose=()=>{this.comm===e&&this.leave(),o(!1)},e.open({...this.shows(t)})})}receive(t){t.kind==="state"&&this.set("ready","",t);for(let e of this.handlers.get(t.kind)??[])e(t)}shows(t){return{kind:"shows",path:this.notebook.context.path,client:t.clientId}}showNotebook(){let t=this.notebook.sessionContext.session?.kernel;t&&this.send(this.shows(t))}watch(t,e){e==="restarting"||e==="autorestarting"||e==="dead"?this.drop():e==="idle"&&this.wanted&&this.held.phase==="none"&&this.ensure()}leave(){this.drop(),this.wanted&&this.ensure()}drop(){this.comm?.dispose(),this.comm=null,this.opening=null,this.set("none")}set(t,e="",o=null){return this.held={phase:t,problem:e,kernel:o},this.isDisposed||this.signal.emit(),t==="ready"}}});var It,E,Et=c(()=>{"use strict";l();It=require("@lumino/signaling");Pt();E=class{constructor(t,e){i(this,"app",t);i(this,"tracker",e);i(this,"links",new Map);i(this,"changed",new It.Signal(this));e.currentChanged.connect(()=>this.changed.emit())}of(t){let e=this.links.get(t);if(e)return e;let o=new I(t,r=>this.withComms(r));return this.links.set(t,o),t.disposed.connect(()=>{this.links.delete(t),o.dispose()}),o}get current(){let t=this.tracker.currentWidget;return t&&!t.isDisposed?this.of(t):null}get currentChanged(){return this.changed}withComms(t){if(t.handleComms)return t;for(let e of this.app.shell.widgets("main")){let o=e.sessionContext?.session?.kernel;if(o?.id===t.id&&o.handleComms)return o}return t}}});function Lt({links:n,options:t,tracker:e}){H.NotebookActions.executionScheduled.connect((o,{notebook:r,cell:s})=>{let a=e.find(({content:p})=>p===r);if(!a||!t.loadBeforeCells)return;let d=s.model.sharedModel.getSource();ye.test(d)&&n.of(a).loadFirst()}),H.NotebookActions.executed.connect((o,{notebook:r,cell:s})=>{let a=e.find(({content:d})=>d===r);a&&ve.test(s.model.sharedModel.getSource())&&n.of(a).ensure()})}var H,ye,ve,_t=c(()=>{"use strict";l();H=require("@jupyterlab/notebook"),ye=/^\s*%{1,2}agent\b/,ve=/^[ \t]*%(?:re)?load_ext[ \t]+indus_nb\b/m});var Tt,L,At=c(()=>{"use strict";l();Tt=require("@lumino/signaling"),L=class{constructor(){i(this,"errorBar",!0);i(this,"statusItem",!0);i(this,"questionMark",!0);i(this,"loadBeforeCells",!0);i(this,"change",new Tt.Signal(this))}get changed(){return this.change}follow(t){let e=()=>{for(let o of["errorBar","statusItem","questionMark","loadBeforeCells"])this[o]=t.get(o).composite!==!1;this.change.emit()};t.changed.connect(e),e()}}});var Nt,Ft=c(()=>{Nt=`.indus-error-bar {
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
`});function $t(n,t){let{links:e,options:o}=n,r=new jt.Signal({}),s=new q(n),a=null,d=()=>{s.draw(a),r.emit()},p=()=>{a?.changed.disconnect(d),a=e.current,a?.changed.connect(d),d()};e.currentChanged.connect(p),o.changed.connect(d),p(),t.registerStatusItem("indus_nb:status",{item:s,align:"right",rank:50,isActive:()=>o.statusItem&&a!==null,activeStateChanged:r})}function Se({kernel:n,phase:t}){return n?xe[n.phase]:t==="loading"?"starts":""}var jt,Dt,xe,Ce,q,Mt=c(()=>{"use strict";l();jt=require("@lumino/signaling"),Dt=require("@lumino/widgets");x();xe={idle:"idle",working:"works",asking:"asks"},Ce="What the requests of all conversations in this kernel have cost since midnight, or since it was started";q=class extends Dt.Widget{constructor(e){super();i(this,"front",e);i(this,"button",document.createElement("button"));i(this,"link",null);this.addClass("indus-status"),this.button.type="button",this.button.addEventListener("click",()=>this.go()),this.node.append(this.button)}draw(e){if(this.link=e,!e)return;let{kernel:o}=e.state,r=o?.cost_today?`$${o.cost_today.toFixed(2)} today`:"";this.button.textContent=[`Agent ${Se(e.state)}`.trim(),o?.model,r].filter(Boolean).join(" · "),this.button.title=[o?.question??"Open the agent's panel",r&&Ce].filter(Boolean).join(`
`),this.toggleClass("indus-mod-asks",m(e))}go(){this.link&&(m(this.link)?w(this.front,this.link):this.front.openPanel(this.link))}}});var Ot,Rt=c(()=>{Ot=`.indus_nb-SidePanel {
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
`});var zt={};ee(zt,{default:()=>Ee});var Kt,Wt,Ht,qt,Jt,Vt,Bt,Ie,Ee,Gt=c(()=>{"use strict";l();Kt=require("@jupyterlab/application"),Wt=require("@jupyterlab/apputils"),Ht=require("@jupyterlab/filebrowser"),qt=require("@jupyterlab/notebook"),Jt=require("@jupyterlab/settingregistry"),Vt=require("@jupyterlab/statusbar");xt();j();Et();_t();x();At();Ft();K();Mt();Rt();Bt="indus_nb:plugin",Ie={id:Bt,description:"A coding agent in the notebook's own kernel.",autoStart:!0,requires:[qt.INotebookTracker],optional:[Kt.ILayoutRestorer,Wt.ICommandPalette,Jt.ISettingRegistry,Vt.IStatusBar,Ht.IFileBrowserFactory],activate(n,t,e,o,r,s,a){let d=document.createElement("style");d.textContent=Ot+Nt,document.head.append(d);let p=new E(n,t);gt(n,p,e);let h={app:n,tracker:t,links:p,options:new L,openPanel:async g=>(await n.commands.execute(b),g.ensure())};r?.load(Bt).then(g=>h.options.follow(g)),vt(h,o,a),ot(h),at(h),Lt(h),s&&$t(h,s)}},Ee=Ie});l();var Ut={},Le={init(n){Ut=n},async get(){let n=await Promise.all(u.map(async t=>[t,await _e(t)]));return require.libraries=Object.fromEntries(n),()=>(Gt(),oe(zt))}};async function _e(n){let t=Object.entries(Ut[n]??{}),e=t.find(([,{loaded:o}])=>o)??t.sort(Te)[0];if(!e)throw new Error(`indus_nb needs ${n}, which this application does not share.`);return(await e[1].get())()}function Te([n],[t]){return t.localeCompare(n,"en",{numeric:!0})}var Qt=globalThis;Qt._JUPYTERLAB={...Qt._JUPYTERLAB,indus_nb:Le};
})();
