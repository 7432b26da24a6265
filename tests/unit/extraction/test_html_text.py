import pytest

from gateway.extraction.html import html_to_text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>One &amp; two\n  three</p><p>four</p>", "One & two three\n\nfour"),
        ("<h1>Top</h1>intro<h3> Sub <i>title</i></h3>body", "# Top\n\nintro\n\n### Sub title\n\nbody"),
        ("<ul><li>a<li>b</ul>", "- a\n- b"),
        ("<ul><li><p>a</p></li></ul>", "- a"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<table><tr><th>k<th>v<tr><td>1<td>2</table>", "| k | v\n| 1 | 2"),
        ("<pre>if x:\n    y  z</pre>", "if x:\n    y  z"),
        ("<head><title>T</title><body>seen", "seen"),
        ("a<script>if (1 < 2) alert('<p>x</p>')</script>b", "ab"),
        ("a<style>p{color:red}</style><noscript>n</noscript><template><p>t</p></template>b", "ab"),
        ("a<!-- <p>no</p> -->b", "ab"),
        ("a<div hidden><div>x</div>y</div>b", "ab"),
        ("a<span style='x:1; display : NONE'>x</span>b", "ab"),
        ("<input hidden>kept", "kept"),
        ("unclosed <b>bold <p>next", "unclosed bold\n\nnext"),
        ("&#8364;&nbsp;5 &lt;tag&gt;", "€\xa05 <tag>"),
        ("", ""),
        ("a < b", "a < b"),
    ],
)
def test_a_page_becomes_the_text_that_a_reader_sees(markup, text):
    assert html_to_text(markup) == text
