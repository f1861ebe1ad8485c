r"""Check for formulas that a page only draws, where they stand.

What this module promises: each command in such a formula is one that is known to draw signs, to set them in a font or
above one another, or to leave a little room. Others may load, link, define, colour by any style or move what they draw
elsewhere: a formula with one of these is none.

>>> only_draws(r"$\frac{\sqrt{x}}{2} \leq \begin{bmatrix}1 & 2\\3 & 4\end{bmatrix}$")
True
>>> only_draws(r"\href{javascript:alert(1)}{x}"), only_draws(r"\mmlToken{mtext}[href=x]{x}"), only_draws(r"\\[-9em]")
(False, False, False)
"""

from __future__ import annotations

import re

_SIGNS = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa varkappa lambda mu nu xi omicron pi varpi
rho varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi
Omega digamma aleph beth gimel daleth hbar hslash ell wp Re Im imath jmath partial nabla infty emptyset varnothing
forall exists nexists neg lnot top bot angle triangle square Box Diamond diamond star bigstar flat natural sharp prime
backprime degree complement eth mho sum prod coprod int iint iiint oint bigcup bigcap bigsqcup bigvee bigwedge bigodot
bigotimes bigoplus biguplus pm mp times div ast cdot circ bullet cap cup uplus sqcap sqcup vee lor wedge land setminus
wr oplus ominus otimes oslash odot dagger ddagger amalg ltimes rtimes leq le geq ge equiv models prec succ sim perp
preceq succeq simeq veebar barwedge mid ll gg asymp parallel subset supset approx bowtie subseteq supseteq cong
sqsubset sqsupset neq ne smile frown in ni owns notin propto vdash dashv doteq leqslant geqslant lesssim gtrsim nleq
ngeq nmid nparallel subsetneq supsetneq nsubseteq therefore because colon ldots cdots vdots ddots dots dotsc dotsb
dotsm dotsi dotso lbrace rbrace lbrack rbrack langle rangle lvert rvert lVert rVert vert Vert lfloor rfloor lceil
rceil backslash leftarrow gets rightarrow to leftrightarrow Leftarrow Rightarrow Leftrightarrow uparrow downarrow
updownarrow Uparrow Downarrow Updownarrow mapsto longmapsto longleftarrow longrightarrow longleftrightarrow
Longleftarrow Longrightarrow Longleftrightarrow iff implies impliedby hookleftarrow hookrightarrow leftharpoonup
rightharpoonup leftharpoondown rightharpoondown rightleftharpoons nearrow searrow swarrow nwarrow leadsto checkmark
arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf injlim ker lg lim liminf limsup ln log max
min Pr projlim sec sin sinh sup tan tanh bmod mod pmod
"""
_SETTINGS = """
frac dfrac tfrac cfrac binom dbinom tbinom sqrt left right middle big Big bigg Bigg bigl bigr bigm Bigl Bigr Bigm
biggl biggr biggm Biggl Biggr Biggm limits nolimits not over choose atop stackrel overset underset substack
overline underline overbrace underbrace overrightarrow overleftarrow overleftrightarrow xrightarrow xleftarrow
hat widehat check tilde widetilde acute grave dot ddot dddot breve bar vec mathring boldsymbol
mathrm mathbf mathit mathsf mathtt mathcal mathbb mathfrak mathscr mathnormal rm bf it sf tt cal text textrm textbf
textit textsf texttt mbox operatorname displaystyle textstyle scriptstyle scriptscriptstyle mathop mathbin mathrel
mathord mathopen mathclose mathpunct mathinner boxed hline quad qquad enspace thinspace nonumber notag
"""
_COMMANDS = frozenset((*_SIGNS.split(), *_SETTINGS.split()))
_ENVIRONMENTS = frozenset(
    (
        *("matrix", "pmatrix", "bmatrix", "Bmatrix", "vmatrix", "Vmatrix", "smallmatrix", "cases", "aligned", "split"),
        *("align", "align*", "equation", "equation*", "gather", "gather*", "gathered", "eqnarray", "eqnarray*"),
        *("math", "displaymath"),
    )
)
_PUNCTUATION = frozenset("\\ ,:;>{}|_#$%&()[]*.-+`~'\"\n")
"""Signs with a backslash before them: blanks, brackets, ends of lines and what Markdown would take for its own."""
_COMMAND = re.compile(r"\\(?:([A-Za-z]+)|(.|\n)|$)")
_TABLE = re.compile(r"\\begin\s*\{array\}\s*(?:\[[tcb]\])?\s*\{[clr| ]*\}|\\end\s*\{array\}")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{([^{}]*)\}")
_MOVED = re.compile(r"\\\\\s*\*?\s*\[|\^\^")
"""The end of a line with a distance of any size; and a sign by its number."""


def only_draws(text: str) -> bool:
    """Return whether all commands in a text with formulas do nothing but draw."""
    text = _TABLE.sub("", text)
    if _MOVED.search(text) or any(name not in _ENVIRONMENTS for name in _ENVIRONMENT.findall(text)):
        return False
    text = _ENVIRONMENT.sub("", text)
    return all(
        name in _COMMANDS if name else bool(sign) and sign in _PUNCTUATION for name, sign in _COMMAND.findall(text)
    )
