"""HTML that would fetch an address or run something, if a page showed it as it is."""

from __future__ import annotations

HOSTILE = [
    '<form action="ADDRESS"><button formaction="ADDRESS">Yes</button><input type=image src="ADDRESS" autofocus></form>',
    '<section>x</section><link rel=dns-prefetch href="ADDRESS"><link rel=preconnect href="ADDRESS">',
    '<section>x</section><link rel=stylesheet href="ADDRESS"><link rel=prefetch href="ADDRESS"><base href="ADDRESS">',
    '<section>x</section><meta http-equiv=refresh content="0;url=ADDRESS"><meta name=referrer content=unsafe-url>',
    "<section>x</section><style>@import 'ADDRESS'; @import url(ADDRESS);</style>",
    "<section>x</section><style>* { background: url(ADDRESS); cursor: url(ADDRESS), auto; mask: url(ADDRESS) }</style>",
    "<section>x</section><style>@font-face { font-family: f; src: url(ADDRESS) } * { font-family: f }</style>",
    '<section style="background: image-set(url(ADDRESS) 1x); filter: url(ADDRESS#f)">x</section>',
    (
        '<svg width=9 height=9><use href="ADDRESS#x"></use><image href="ADDRESS"/>'
        '<rect width=9 height=9 fill="url(ADDRESS#x)"/></svg>'
    ),
    (
        "<svg width=9 height=9><rect width=9 height=9 />"
        "<script>RUN</script><style>* { fill: url(ADDRESS#x) }</style></svg>"
    ),
    (
        '<svg width=9><rect width=9 height=9 onclick="RUN"/>'
        '<animate attributeName=href to="javascript:RUN" onbegin="RUN"/></svg>'
    ),
    (
        '<svg width=9 onload="RUN"><foreignObject><img src=x onerror="RUN">'
        '<iframe srcdoc="x"></iframe></foreignObject><rect width=9 /></svg>'
    ),
    '<svg><p><style><a id="</style><img src=ADDRESS onerror=RUN>"></style></p><rect width=9 /></svg>',
    "<svg><style>&lt;/style&gt;&lt;img src=ADDRESS onerror=RUN&gt;</style><rect width=9 /></svg>",
    (
        "<math><mtext><table><mglyph><style><!--</style>"
        '<img title="--&gt;&lt;img src=ADDRESS onerror=RUN&gt;"></table></math>x<nav></nav>'
    ),
    '<section>x</section><noscript><p title="</noscript><img src=ADDRESS onerror=RUN>"></noscript>',
    "<section>x</section><template><img src=ADDRESS onerror=RUN></template><object data=ADDRESS></object>",
    "<section>x</section></body></html></iframe><script>RUN</script><img src=ADDRESS onerror=RUN>",
    "<section title='\"></iframe><script>RUN</script>'>x</section>\"></iframe><script>RUN</script>",
    '<section><a href="ADDRESS" ping="ADDRESS" target=_top id=go>x</a><area href="ADDRESS"></section>',
    (
        '<details open ontoggle="RUN"><summary>x</summary>y</details>'
        "<input onfocus=RUN autofocus><video src=ADDRESS></video>"
    ),
]
"""HTML with parts that stand in a frame, and what would fetch an address or run something."""
