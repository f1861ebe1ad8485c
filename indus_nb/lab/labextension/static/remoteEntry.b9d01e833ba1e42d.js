(()=>{const require=(name)=>require.libraries[name];
"use strict";var c=Object.defineProperty;var $=Object.getOwnPropertyDescriptor;var B=Object.getOwnPropertyNames;var G=Object.prototype.hasOwnProperty;var U=(i,t,e)=>t in i?c(i,t,{enumerable:!0,configurable:!0,writable:!0,value:e}):i[t]=e;var l=(i,t,e)=>()=>{if(e)throw e[0];try{return i&&(t=i(i=0)),t}catch(n){throw e=[n],n}};var Y=(i,t)=>{for(var e in t)c(i,e,{get:t[e],enumerable:!0})},X=(i,t,e,n)=>{if(t&&typeof t=="object"||typeof t=="function")for(let o of B(t))!G.call(i,o)&&o!==e&&c(i,o,{get:()=>t[o],enumerable:!(n=$(t,o))||n.enumerable});return i};var Q=i=>X(c({},"__esModule",{value:!0}),i);var s=(i,t,e)=>U(i,typeof t!="symbol"?t+"":t,e);var d,r=l(()=>{d=["@jupyterlab/application","@jupyterlab/notebook","@jupyterlab/ui-components","@lumino/disposable","@lumino/signaling","@lumino/widgets"]});var P,w,ee,te,C,ne,p,E=l(()=>{"use strict";r();P=require("@lumino/disposable"),w=require("@lumino/signaling"),ee="indus_nb.door",te='__import__("importlib").import_module("indus_nb.front.notebook").open_doors()',C='__import__("importlib.util").util.find_spec("indus_nb") is not None',ne={phase:"none",problem:"",kernel:null},p=class{constructor(t,e){s(this,"notebook",t);s(this,"withComms",e);s(this,"held",ne);s(this,"comm",null);s(this,"opening",null);s(this,"wanted",!1);s(this,"handlers",new Map);s(this,"signal",new w.Signal(this));s(this,"isDisposed",!1);let{sessionContext:n,context:o}=t;n.kernelChanged.connect(this.leave,this),n.statusChanged.connect(this.watch,this),o.pathChanged.connect(this.showNotebook,this)}get state(){return this.held}get changed(){return this.signal}ensure(){return this.wanted=!0,this.held.phase==="ready"?Promise.resolve(!0):(this.opening??=this.open().finally(()=>{this.opening=null}),this.opening)}send(t){this.comm&&!this.comm.isDisposed&&this.comm.send({...t})}on(t,e){let n=this.handlers.get(t)??new Set;return this.handlers.set(t,n.add(e)),new P.DisposableDelegate(()=>n.delete(e))}dispose(){this.isDisposed||(this.isDisposed=!0,this.wanted=!1,this.drop(),w.Signal.clearData(this))}async open(){let{sessionContext:t}=this.notebook;await t.ready;let e=t.session?.kernel;if(!e)return this.set("no-kernel");this.set("loading");try{if((await e.info).language_info.name!=="python")return this.set("not-python");let n=await this.load(e);return n!==null?n?this.set("failed",n):this.set("not-installed"):await this.connect(e)}catch(n){return e.isDisposed||this.isDisposed?!1:this.set("failed",n instanceof Error?n.message:String(n))}}async load(t){t.status==="busy"&&this.set("waiting");let e=t.requestExecute({code:"",silent:!0,store_history:!1,allow_stdin:!1,user_expressions:{here:C,loaded:`${te} if ${C} else None`}});e.onIOPub=()=>{this.set("loading")};let n=await e.done;if(n.content.status!=="ok")return"The kernel did not load the package.";let{here:o,loaded:a}=n.content.user_expressions;return a?.status==="error"?`${a.ename}: ${a.evalue}`:o?.data?.["text/plain"]==="True"?null:""}connect(t){let e=this.withComms(t).createComm(ee);return this.comm=e,new Promise(n=>{e.onMsg=({content:o})=>{this.receive(o.data),n(!0)},e.onClose=()=>{this.comm===e&&this.leave(),n(!1)},e.open({...this.shows(t)})})}receive(t){t.kind==="state"&&this.set("ready","",t);for(let e of this.handlers.get(t.kind)??[])e(t)}shows(t){return{kind:"shows",path:this.notebook.context.path,client:t.clientId}}showNotebook(){let t=this.notebook.sessionContext.session?.kernel;t&&this.send(this.shows(t))}watch(t,e){e==="restarting"||e==="autorestarting"||e==="dead"?this.drop():e==="idle"&&this.wanted&&this.held.phase==="none"&&this.ensure()}leave(){this.drop(),this.wanted&&this.ensure()}drop(){this.comm?.dispose(),this.comm=null,this.opening=null,this.set("none")}set(t,e="",n=null){return this.held={phase:t,problem:e,kernel:n},this.isDisposed||this.signal.emit(),t==="ready"}}});var S,u,I=l(()=>{"use strict";r();S=require("@lumino/signaling");E();u=class{constructor(t,e){s(this,"app",t);s(this,"tracker",e);s(this,"links",new Map);s(this,"changed",new S.Signal(this));e.currentChanged.connect(()=>this.changed.emit())}of(t){let e=this.links.get(t);if(e)return e;let n=new p(t,o=>this.withComms(o));return this.links.set(t,n),t.disposed.connect(()=>{this.links.delete(t),n.dispose()}),n}get current(){let t=this.tracker.currentWidget;return t&&!t.isDisposed?this.of(t):null}get currentChanged(){return this.changed}withComms(t){if(t.handleComms)return t;for(let e of this.app.shell.widgets("main")){let n=e.sessionContext?.session?.kernel;if(n?.id===t.id&&n.handleComms)return n}return t}}});var T,h,L=l(()=>{"use strict";r();T="%pip install indus_nb",h=class{constructor(t){s(this,"link",t);s(this,"node",document.createElement("div"));s(this,"button",document.createElement("button"));s(this,"printed",document.createElement("pre"));let e=document.createElement("code");e.textContent=T,this.button.className="jp-mod-styled jp-mod-accept",this.button.textContent="Install it",this.button.onclick=()=>this.install(),this.printed.setAttribute("role","log"),this.printed.tabIndex=0,this.printed.setAttribute("aria-label","What the installation prints"),this.printed.hidden=!0,this.node.className="indus_nb-install",this.node.append(e,this.button,this.printed)}async install(){let t=this.link.notebook.sessionContext.session?.kernel;if(t){this.button.disabled=!0,this.printed.hidden=!1,this.printed.textContent=`Installing…
`;try{await this.run(t),await this.link.ensure()}catch(e){this.print(String(e))}this.button.disabled=!1}}async run(t){let e=t.requestExecute({code:T,store_history:!1,allow_stdin:!1});e.onIOPub=({header:n,content:o})=>{n.msg_type==="stream"&&this.print(o.text)},await e.done}print(t){this.printed.textContent=`${this.printed.textContent}${t}`.slice(-2e3),this.printed.scrollTop=this.printed.scrollHeight}};s(h,"sentence","The package indus_nb is not installed where this notebook's kernel runs. This line does it:")});var g,y,D,R,ie,m,N=l(()=>{"use strict";r();g=require("@lumino/widgets");L();y="application/vnd.jupyter.widget-view+json",D="textarea.ia-text",R={none:"The kernel is on its way.","no-kernel":"This notebook has no kernel. Start one, and the agent comes with it.","not-python":"The agent works in Python kernels; this notebook has another one.",waiting:"The kernel is busy: the agent comes when the cell has ended.",loading:"The agent is on its way.",ready:"The agent is on its way.",failed:"The agent could not be opened."},ie="This page cannot show widgets: install the package jupyterlab_widgets where Jupyter itself runs.",m=class extends g.Widget{constructor(e){super();s(this,"link",e);s(this,"said",document.createElement("p"));s(this,"installer");s(this,"view",null);s(this,"shown",null);s(this,"asked",!1);s(this,"begun",!1);this.addClass("indus_nb-Chat"),this.layout=new g.PanelLayout,this.installer=new h(e),this.said.className="indus_nb-said",this.said.setAttribute("role","status"),this.node.append(this.said,this.installer.node),e.changed.connect(this.follow,this)}begin(){this.begun=!0,this.asked&&=!this.link.state.kernel?.error,this.follow(),this.link.ensure()}focusWhenThere(){let e=this.node.querySelector(D);if(e){e.focus();return}let n=new MutationObserver(()=>{let o=this.node.querySelector(D);o&&(n.disconnect(),o.focus())});n.observe(this.node,{childList:!0,subtree:!0})}dispose(){this.link.changed.disconnect(this.follow,this),super.dispose()}follow(){if(!this.begun)return;let{phase:e,kernel:n}=this.link.state;n&&!this.asked&&this.link.send({kind:"open_panel"}),this.asked=n!==null,this.showView(n?.panel??null);let o=this.view?"":this.sentence();this.said.hidden=o==="",this.said.textContent!==o&&(this.said.textContent=o),this.installer.node.hidden=e!=="not-installed"}sentence(){let{phase:e,problem:n,kernel:o}=this.link.state;if(e==="not-installed")return h.sentence;if(o?.panel)return ie;let a=o?.error??n;return a?`${R.failed} ${a}`:R[e]}showView(e){e!==this.shown&&(this.shown=e,this.view?.dispose(),this.view=e===null?null:this.render(e),this.view&&this.layout.addWidget(this.view))}render(e){let{rendermime:n}=this.link.notebook.content,o={[y]:{version_major:2,version_minor:0,model_id:e}},a=n.createModel({data:o,trusted:!0});if(!n.mimeTypes.includes(y))return null;let b=n.createRenderer(y);return b.addClass("indus_nb-View"),b.renderModel(a),b}}});var j,v,K=l(()=>{"use strict";r();j=require("@jupyterlab/ui-components"),v=new j.LabIcon({name:"indus_nb:agent",svgstr:`<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
  <path class="jp-icon3" fill="#616161" d="M2.5 2h7v1.5h-7v7h2v1.9l2.6-1.9h5.4V8H14v2.5c0 .8-.7 1.5-1.5 1.5H7.6L3
  15.3V12h-.5C1.7 12 1 11.300 1 10.500v-7C1 2.700 1.700 2 2.500 2zM13 0l.8 2.200L16 3l-2.200.8L13 6l-.8-2.200L10 3l2.200-.8z"/>
</svg>`})});function A(i,t,e){let n=new x(t);i.shell.add(n,"right",{rank:se,type:_}),e?.add(n,k),i.commands.addCommand(oe,{label:"Open Agent Panel",caption:"Talk to the agent in the kernel of the notebook in front",icon:v,execute:()=>i.shell.activateById(k)})}var f,oe,k,_,se,x,H=l(()=>{"use strict";r();f=require("@lumino/widgets");N();K();oe="indus_nb:open-panel",k="indus_nb-panel",_="Agent",se=900;x=class extends f.Widget{constructor(e){super();s(this,"links",e);s(this,"chats",new Map);s(this,"none",document.createElement("p"));this.id=k,this.addClass("indus_nb-SidePanel"),this.title.icon=v,this.title.caption=_,this.node.setAttribute("role","region"),this.node.setAttribute("aria-label",_),this.none.className="indus_nb-said",this.none.textContent="Open a notebook to talk to the agent in its kernel.",this.node.append(this.none),this.layout=new f.PanelLayout,e.currentChanged.connect(this.follow,this)}onBeforeShow(){this.follow()}onActivateRequest(){this.current()?.focusWhenThere()}current(){let{current:e}=this.links;if(!e)return null;let n=this.chats.get(e.notebook);if(n)return n;let o=new m(e);return this.chats.set(e.notebook,o),this.layout.addWidget(o),e.notebook.disposed.connect(a=>{this.chats.delete(a),o.dispose()}),o}follow(){if(this.isHidden)return;let e=this.current();for(let n of this.chats.values())n.setHidden(n!==e);this.none.hidden=e!==null,e?.begin()}}});var O,M=l(()=>{O=`.indus_nb-SidePanel {
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
`});var J={};Y(J,{default:()=>le});var W,F,ae,le,V=l(()=>{"use strict";r();W=require("@jupyterlab/application"),F=require("@jupyterlab/notebook");I();H();M();ae={id:"indus_nb:plugin",description:"A coding agent in the notebook's own kernel.",autoStart:!0,requires:[F.INotebookTracker],optional:[W.ILayoutRestorer],activate(i,t,e){let n=document.createElement("style");n.textContent=O,document.head.append(n);let o=new u(i,t);A(i,o,e)}},le=ae});r();var z={},de={init(i){z=i},async get(){let i=await Promise.all(d.map(async t=>[t,await he(t)]));return require.libraries=Object.fromEntries(i),()=>(V(),Q(J))}};async function he(i){let t=Object.entries(z[i]??{}),e=t.find(([,{loaded:n}])=>n)??t.sort(ce)[0];if(!e)throw new Error(`indus_nb needs ${i}, which this application does not share.`);return(await e[1].get())()}function ce([i],[t]){return t.localeCompare(i,"en",{numeric:!0})}var q=globalThis;q._JUPYTERLAB={...q._JUPYTERLAB,indus_nb:de};
})();
