(()=>{const require=(name)=>require.libraries[name];
"use strict";var c=Object.defineProperty;var Y=Object.getOwnPropertyDescriptor;var X=Object.getOwnPropertyNames;var Q=Object.prototype.hasOwnProperty;var Z=(o,e,t)=>e in o?c(o,e,{enumerable:!0,configurable:!0,writable:!0,value:t}):o[e]=t;var l=(o,e,t)=>()=>{if(t)throw t[0];try{return o&&(e=o(o=0)),e}catch(n){throw t=[n],n}};var ee=(o,e)=>{for(var t in e)c(o,t,{get:e[t],enumerable:!0})},te=(o,e,t,n)=>{if(e&&typeof e=="object"||typeof e=="function")for(let i of X(e))!Q.call(o,i)&&i!==t&&c(o,i,{get:()=>e[i],enumerable:!(n=Y(e,i))||n.enumerable});return o};var ne=o=>te(c({},"__esModule",{value:!0}),o);var s=(o,e,t)=>Z(o,typeof e!="symbol"?e+"":e,t);var d,r=l(()=>{d=["@jupyterlab/application","@jupyterlab/notebook","@jupyterlab/ui-components","@lumino/disposable","@lumino/signaling","@lumino/widgets"]});var I,y,ie,se,C,re,p,S=l(()=>{"use strict";r();I=require("@lumino/disposable"),y=require("@lumino/signaling"),ie="indus_nb.door",se='__import__("importlib").import_module("indus_nb.front.notebook").open_doors()',C='__import__("importlib.util").util.find_spec("indus_nb") is not None',re={phase:"none",problem:"",kernel:null},p=class{constructor(e,t){s(this,"notebook",e);s(this,"withComms",t);s(this,"held",re);s(this,"comm",null);s(this,"opening",null);s(this,"wanted",!1);s(this,"handlers",new Map);s(this,"signal",new y.Signal(this));s(this,"isDisposed",!1);let{sessionContext:n,context:i}=e;n.kernelChanged.connect(this.leave,this),n.statusChanged.connect(this.watch,this),i.pathChanged.connect(this.showNotebook,this)}get state(){return this.held}get changed(){return this.signal}ensure(){return this.wanted=!0,this.held.phase==="ready"?Promise.resolve(!0):(this.opening??=this.open().finally(()=>{this.opening=null}),this.opening)}send(e){this.comm&&!this.comm.isDisposed&&this.comm.send({...e})}on(e,t){let n=this.handlers.get(e)??new Set;return this.handlers.set(e,n.add(t)),new I.DisposableDelegate(()=>n.delete(t))}dispose(){this.isDisposed||(this.isDisposed=!0,this.wanted=!1,this.drop(),y.Signal.clearData(this))}async open(){let{sessionContext:e}=this.notebook;await e.ready;let t=e.session?.kernel;if(!t)return this.set("no-kernel");this.set("loading");try{if((await t.info).language_info.name!=="python")return this.set("not-python");let n=await this.load(t);return n!==null?n?this.set("failed",n):this.set("not-installed"):await this.connect(t)}catch(n){return t.isDisposed||this.isDisposed?!1:this.set("failed",n instanceof Error?n.message:String(n))}}async load(e){e.status==="busy"&&this.set("waiting");let t=e.requestExecute({code:"",silent:!0,store_history:!1,allow_stdin:!1,user_expressions:{here:C,loaded:`${se} if ${C} else None`}});t.onIOPub=()=>{this.set("loading")};let n=await t.done;if(n.content.status!=="ok")return"The kernel did not load the package.";let{here:i,loaded:a}=n.content.user_expressions;return a?.status==="error"?`${a.ename}: ${a.evalue}`:i?.data?.["text/plain"]==="True"?null:""}connect(e){let t=this.withComms(e).createComm(ie);return this.comm=t,new Promise(n=>{t.onMsg=({content:i})=>{this.receive(i.data),n(!0)},t.onClose=()=>{this.comm===t&&this.leave(),n(!1)},t.open({...this.shows(e)})})}receive(e){e.kind==="state"&&this.set("ready","",e);for(let t of this.handlers.get(e.kind)??[])t(e)}shows(e){return{kind:"shows",path:this.notebook.context.path,client:e.clientId}}showNotebook(){let e=this.notebook.sessionContext.session?.kernel;e&&this.send(this.shows(e))}watch(e,t){t==="restarting"||t==="autorestarting"||t==="dead"?this.drop():t==="idle"&&this.wanted&&this.held.phase==="none"&&this.ensure()}leave(){this.drop(),this.wanted&&this.ensure()}drop(){this.comm?.dispose(),this.comm=null,this.opening=null,this.set("none")}set(e,t="",n=null){return this.held={phase:e,problem:t,kernel:n},this.isDisposed||this.signal.emit(),e==="ready"}}});var T,u,N=l(()=>{"use strict";r();T=require("@lumino/signaling");S();u=class{constructor(e,t){s(this,"app",e);s(this,"tracker",t);s(this,"links",new Map);s(this,"changed",new T.Signal(this));t.currentChanged.connect(()=>this.changed.emit())}of(e){let t=this.links.get(e);if(t)return t;let n=new p(e,i=>this.withComms(i));return this.links.set(e,n),e.disposed.connect(()=>{this.links.delete(e),n.dispose()}),n}get current(){let e=this.tracker.currentWidget;return e&&!e.isDisposed?this.of(e):null}get currentChanged(){return this.changed}withComms(e){if(e.handleComms)return e;for(let t of this.app.shell.widgets("main")){let n=t.sessionContext?.session?.kernel;if(n?.id===e.id&&n.handleComms)return n}return e}}});function m(o,e){D.set(e,o)}function L(o){o.forEach(e=>{m(e,e.node)}),o.widgetAdded.connect((e,t)=>m(t,t.node)),globalThis[ae]=(e,t)=>(e.map(le).find(i=>i&&!i.isDisposed)??o.find(({sessionContext:i})=>i.session?.kernel?.clientId===t))?.context}function le(o){for(let e=o;e;e=e.parentElement){let t=D.get(e);if(t)return t}}var D,ae,k=l(()=>{"use strict";r();D=new WeakMap,ae=Symbol.for("indus_nb notebook")});var R,h,A=l(()=>{"use strict";r();R="%pip install indus_nb",h=class{constructor(e){s(this,"link",e);s(this,"node",document.createElement("div"));s(this,"button",document.createElement("button"));s(this,"printed",document.createElement("pre"));let t=document.createElement("code");t.textContent=R,this.button.className="jp-mod-styled jp-mod-accept",this.button.textContent="Install it",this.button.onclick=()=>this.install(),this.printed.setAttribute("role","log"),this.printed.tabIndex=0,this.printed.setAttribute("aria-label","What the installation prints"),this.printed.hidden=!0,this.node.className="indus_nb-install",this.node.append(t,this.button,this.printed)}async install(){let e=this.link.notebook.sessionContext.session?.kernel;if(e){this.button.disabled=!0,this.printed.hidden=!1,this.printed.textContent=`Installing…
`;try{await this.run(e),await this.link.ensure()}catch(t){this.print(String(t))}this.button.disabled=!1}}async run(e){let t=e.requestExecute({code:R,store_history:!1,allow_stdin:!1});t.onIOPub=({header:n,content:i})=>{n.msg_type==="stream"&&this.print(i.text)},await t.done}print(e){this.printed.textContent=`${this.printed.textContent}${e}`.slice(-2e3),this.printed.scrollTop=this.printed.scrollHeight}};s(h,"sentence","The package indus_nb is not installed where this notebook's kernel runs. This line does it:")});var g,v,j,K,de,f,M=l(()=>{"use strict";r();g=require("@lumino/widgets");A();k();v="application/vnd.jupyter.widget-view+json",j="textarea.ia-text",K={none:"The kernel is on its way.","no-kernel":"This notebook has no kernel. Start one, and the agent comes with it.","not-python":"The agent works in Python kernels; this notebook has another one.",waiting:"The kernel is busy: the agent comes when the cell has ended.",loading:"The agent is on its way.",ready:"The agent is on its way.",failed:"The agent could not be opened."},de="This page cannot show widgets: install the package jupyterlab_widgets where Jupyter itself runs.",f=class extends g.Widget{constructor(t){super();s(this,"link",t);s(this,"said",document.createElement("p"));s(this,"installer");s(this,"view",null);s(this,"shown",null);s(this,"asked",!1);s(this,"begun",!1);this.addClass("indus_nb-Chat"),this.layout=new g.PanelLayout,this.installer=new h(t),this.said.className="indus_nb-said",this.said.setAttribute("role","status"),this.node.append(this.said,this.installer.node),m(t.notebook,this.node),t.changed.connect(this.follow,this)}begin(){this.begun=!0,this.asked&&=!this.link.state.kernel?.error,this.follow(),this.link.ensure()}focusWhenThere(){let t=this.node.querySelector(j);if(t){t.focus();return}let n=new MutationObserver(()=>{let i=this.node.querySelector(j);i&&(n.disconnect(),i.focus())});n.observe(this.node,{childList:!0,subtree:!0})}dispose(){this.link.changed.disconnect(this.follow,this),super.dispose()}follow(){if(!this.begun)return;let{phase:t,kernel:n}=this.link.state;n&&!this.asked&&this.link.send({kind:"open_panel"}),this.asked=n!==null,this.showView(n?.panel??null);let i=this.view?"":this.sentence();this.said.hidden=i==="",this.said.textContent!==i&&(this.said.textContent=i),this.installer.node.hidden=t!=="not-installed"}sentence(){let{phase:t,problem:n,kernel:i}=this.link.state;if(t==="not-installed")return h.sentence;if(i?.panel)return de;let a=i?.error??n;return a?`${K.failed} ${a}`:K[t]}showView(t){t!==this.shown&&(this.shown=t,this.view?.dispose(),this.view=t===null?null:this.render(t),this.view&&this.layout.addWidget(this.view))}render(t){let{rendermime:n}=this.link.notebook.content,i={[v]:{version_major:2,version_minor:0,model_id:t}},a=n.createModel({data:i,trusted:!0});if(!n.mimeTypes.includes(v))return null;let w=n.createRenderer(v);return w.addClass("indus_nb-View"),w.renderModel(a),w}}});var H,x,O=l(()=>{"use strict";r();H=require("@jupyterlab/ui-components"),x=new H.LabIcon({name:"indus_nb:agent",svgstr:`<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
  <path class="jp-icon3" fill="#616161" d="M2.5 2h7v1.5h-7v7h2v1.9l2.6-1.9h5.4V8H14v2.5c0 .8-.7 1.5-1.5 1.5H7.6L3
  15.3V12h-.5C1.7 12 1 11.300 1 10.500v-7C1 2.700 1.700 2 2.500 2zM13 0l.8 2.200L16 3l-2.200.8L13 6l-.8-2.200L10 3l2.200-.8z"/>
</svg>`})});function W(o,e,t){let n=new P(e);o.shell.add(n,"right",{rank:ce,type:E}),t?.add(n,_),o.commands.addCommand(he,{label:"Open Agent Panel",caption:"Talk to the agent in the kernel of the notebook in front",icon:x,execute:()=>o.shell.activateById(_)})}var b,he,_,E,ce,P,F=l(()=>{"use strict";r();b=require("@lumino/widgets");M();O();he="indus_nb:open-panel",_="indus_nb-panel",E="Agent",ce=900;P=class extends b.Widget{constructor(t){super();s(this,"links",t);s(this,"chats",new Map);s(this,"none",document.createElement("p"));this.id=_,this.addClass("indus_nb-SidePanel"),this.title.icon=x,this.title.caption=E,this.node.setAttribute("role","region"),this.node.setAttribute("aria-label",E),this.none.className="indus_nb-said",this.none.textContent="Open a notebook to talk to the agent in its kernel.",this.node.append(this.none),this.layout=new b.PanelLayout,t.currentChanged.connect(this.follow,this)}onAfterShow(){this.follow()}onActivateRequest(){this.follow(),this.current()?.focusWhenThere()}current(){let{current:t}=this.links;if(!t)return null;let n=this.chats.get(t.notebook);if(n)return n;let i=new f(t);return this.chats.set(t.notebook,i),this.layout.addWidget(i),t.notebook.disposed.connect(a=>{this.chats.delete(a),i.dispose()}),i}follow(){if(!this.isVisible)return;let t=this.current();for(let n of this.chats.values())n.setHidden(n!==t);this.none.hidden=t!==null,t?.begin()}}});var V,J=l(()=>{V=`.indus_nb-SidePanel {
  display: flex;
  flex-direction: column;
  min-width: 240px !important;
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
`});var $={};ee($,{default:()=>me});var q,z,ue,me,B=l(()=>{"use strict";r();q=require("@jupyterlab/application"),z=require("@jupyterlab/notebook");N();k();F();J();ue={id:"indus_nb:plugin",description:"A coding agent in the notebook's own kernel.",autoStart:!0,requires:[z.INotebookTracker],optional:[q.ILayoutRestorer],activate(o,e,t){let n=document.createElement("style");n.textContent=V,document.head.append(n);let i=new u(o,e);L(e),W(o,i,t)}},me=ue});r();var U={},fe={init(o){U=o},async get(){let o=await Promise.all(d.map(async e=>[e,await ge(e)]));return require.libraries=Object.fromEntries(o),()=>(B(),ne($))}};async function ge(o){let e=Object.entries(U[o]??{}),t=e.find(([,{loaded:n}])=>n)??e.sort(be)[0];if(!t)throw new Error(`indus_nb needs ${o}, which this application does not share.`);return(await t[1].get())()}function be([o],[e]){return e.localeCompare(o,"en",{numeric:!0})}var G=globalThis;G._JUPYTERLAB={...G._JUPYTERLAB,indus_nb:fe};
})();
