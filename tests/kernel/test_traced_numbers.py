"""Numbers of answers are traced to outputs, however they are written, and hostile answers take no long time."""

from __future__ import annotations

import pytest
from benchmarks import claims
from benchmarks.traced_statements import KINDS, STYLES
from work import cpu_stays_in_proportion

from indus_nb.kernel.claims import Output, found, trace, untraced
from indus_nb.kernel.claims.numbers import MAX_CHARACTERS, MAX_NUMBERS, numbers_of_answer, numbers_of_output

TABLE = "region\nNorth    12345.678\nSouth     9876.500\nName: revenue, dtype: float64"


def kinds(answer: str, *outputs: str, asked: str = "") -> dict[str, str]:
    """What each number of an answer is."""
    calls = [Output(f"call-{place}", text) for place, text in enumerate(outputs)]
    return {answer[each.start : each.end]: each.kind.value for each in trace(answer, calls, asked)}


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("12345.678", "exact"),
        ("12,345.68", "rounded"),
        ("12.345,68", "rounded"),
        ("12 345,68", "rounded"),
        ("12\u202f345,68", "rounded"),
        ("12\u00a0346", "rounded"),
        ("12'346", "rounded"),
        ("1.2346e4", "rounded"),
        ("12,345.69", "missing"),
        ("12,354.68", "missing"),
        ("1,234.57", "missing"),
    ],
)
def test_a_number_is_found_in_each_way_of_writing_and_only_to_the_digits_written(written: str, kind: str) -> None:
    assert kinds(f"North has {written} in all.", TABLE) == {written: kind}


@pytest.mark.parametrize(
    ("answer", "output", "kind"),
    [
        ("It is 12.3k €", "12345.678", "rounded"),
        ("It is $1.2 m in all", "1234567", "rounded"),
        ("It is $12.3 thousand", "12345.678", "rounded"),
        ("It is 1,2 Mio. €", "1234567", "rounded"),
        ("It is 1.3 million", "1234567", "missing"),
        ("It is about 1,200", "1234", "rounded"),
        ("It is 1,200", "1234", "missing"),
        ("It is 12.3 %", "0.1234", "percent"),
        ("It is 12,3 Prozent", "12.34", "rounded"),
        ("A rate of 0.123", "rate: 12.34%", "percent"),
        ("It fell by 12.3", "-12.34", "rounded"),
        ("It is -12.3", "-12.34", "rounded"),
        ("It is +12.3", "-12.34", "missing"),
        ("It is 40 km long", "np.float64(40.0)", "exact"),
        ("It takes 12 s", "took 12.3s", "rounded"),
        ("It takes 12 s", "at 12abc4, 12_3, x12.3", "missing"),
    ],
)
def test_scales_percentages_signs_and_words_say_what_a_number_stands_for(answer: str, output: str, kind: str) -> None:
    assert list(kinds(answer, output).values()) == [kind]


@pytest.mark.parametrize(
    "written", ["2024-03-05", "5 March 2024", "March 5, 2024", "05.03.2024", "3/5/2024", "5. März 2024", "Mar 5"]
)
def test_a_date_is_found_in_each_way_of_writing(written: str) -> None:
    answer = f"The last one is of {written}."
    assert kinds(answer, "Timestamp('2024-03-05 00:00:00')") == {written: "date"}
    assert kinds(answer, "Timestamp('2024-03-06 00:00:00')") == {written: "missing"}


def test_what_two_numbers_make_is_found_where_they_are_cited_beside_it() -> None:
    cited = "North has 12,345.68, South 9,876.50"
    assert kinds(f"{cited}: 2,469.18 more.", TABLE)["2,469.18"] == "difference"
    assert kinds(f"{cited}: 25.0 % more.", TABLE)["25.0"] == "change"
    assert kinds(f"{cited}: South has 80 % of that.", TABLE)["80"] == "ratio"
    assert kinds(f"{cited}: 1.25 times as much.", TABLE)["1.25"] == "ratio"
    assert kinds(f"{cited}: 2,496.18 more.", TABLE)["2,496.18"] == "missing"
    assert kinds(f"{cited}: 26.0 % more.", TABLE)["26.0"] == "missing"


def test_of_two_numbers_that_are_not_cited_only_what_is_no_chance_counts() -> None:
    many = "\n".join(f"group {chr(97 + row)}  {row * 37.31 + row**2 * 1.7:.2f}" for row in range(1, 25))
    assert kinds("They are 2,469.18 apart.", TABLE) == {"2,469.18": "difference"}
    assert kinds("That is 25 % more.", many) == {"25": "missing"}


def test_the_places_are_those_of_the_numbers_in_the_last_output_that_has_them() -> None:
    outputs = [Output("a", "12.5 and 7.25"), Output("b", "total: 12.5")]
    one, other, third = trace("12.5 and 7.25, 5.25 apart", outputs)
    assert [outputs[0].text[place.at :] for place in other.places] == ["7.25"]
    assert [(place.call_id, place.at) for place in one.places] == [("b", 7)]
    assert {place.call_id for place in third.places} == {"a", "b"}


def test_only_what_was_put_out_counts_and_names_of_rows_and_types_are_no_values() -> None:
    frame = "    units\n17    201\n18    305\n19    118\n\n[3 rows x 1 columns], dtype: int64"
    assert kinds("The counts are 18, 64 and 118.", frame) == {"18": "missing", "64": "missing", "118": "exact"}
    assert kinds("In row 18 it is 305.", frame) == {"305": "exact"}


def test_a_count_below_ten_leads_to_the_call_that_has_put_it_out_and_is_never_missing() -> None:
    answer, outputs = "There are 5 cities in 3 regions.", [Output("a", "12.5"), Output("b", "5")]
    assert found(answer, outputs) == (("5", ("b",)),)
    assert untraced(answer, outputs) == ()


@pytest.mark.parametrize(
    "answer",
    [
        "## 12. Results",
        "### 12.3 More",
        "12. the first\n13. the second",
        "`frame.head(4711)` and ``a ` 4711``",
        "Live: `{python} total * 4711`",
        "```python\n4711\n```",
        "> - ~~~\n>   4711\n>   ~~~",
        "[a link](https://a.example/4711 'with 4712')",
        "see https://a.example/4711?x=4712 and <a href='4713'>",
        "[note]: https://a.example/4711",
        "pandas 3.1.1, Python 3.11, v4711, Q4711, COVID-19, data_4711.csv, 4711.csv, x4711y",
        "in 2019 and 2024",
        "the top 30, row 17, a 30-day window, [12], the 75th percentile, at p < 0.05, a 95% CI",
        "2 of the 5 groups",
        "| # | name |\n|---|---|\n| 1 | a |\n| 2 | b |\n| 3 | c |",
    ],
)
def test_what_is_no_result_is_left_alone(answer: str) -> None:
    assert kinds(answer, "1.5") == {}


def test_numbers_of_the_users_own_words_are_left_to_the_user() -> None:
    asked = "How many rows have a price above 150?"
    assert kinds("Above 150 there are 42, below 151 more.", "42", asked=asked) == {
        "150": "asked",
        "42": "exact",
        "151": "missing",
    }


def test_cells_of_tables_in_an_answer_are_looked_up() -> None:
    answer = "| # | region | revenue |\n|---|---|---|\n| 1 | North | 12,345.68 |\n| 2 | South | 9,876.51 |"
    assert kinds(answer, TABLE) == {"12,345.68": "rounded", "9,876.51": "missing"}


FLIGHTS = (
    """           count       mean        std   min   25%   50%     75%     max
origin
EWR     117127.0  15.009110  41.185035 -56.0 -14.0  -4.0  16.000  1109.0
JFK     109079.0   5.551481  44.275007 -79.0 -18.0  -6.0  13.000  1272.0
LGA     101140.0   5.783488  43.862273 -68.0 -17.0  -5.0  12.000   911.0""",
    """month
6     16.481330
7     16.711307
8      6.040652
9     -4.018364
Name: arr_delay, dtype: float64""",
    "(336776, 19)\nmissing arr_delay: 9430 (2.80%)\nr: np.float64(0.9148)",
)


def test_in_an_answer_as_models_write_it_only_what_no_output_has_is_missing() -> None:
    answer = """## Flight delays in 2013

The data has **336,776** flights and 19 columns; `arr_delay` is missing in 9,430 rows (2.8 %); 327,346 have it (97.2 %).

| Origin | Flights | Mean delay (min) |
|---|---:|---:|
| EWR | 117,127 | 15.0 |
| JFK | 109,079 | 5.6 |

1. **Newark** is worst: 15.0 minutes, about 2.7x JFK's 5.6. EWR has 8,048 more flights than JFK (+7.4 %).
2. The worst months are July (16.7 min) and June (16.5 min); September is best at \u22124.0 min.
3. The longest delay was 1,272 minutes (≈ 21.2 hours). Delays correlate (r ≈ 0.91, p < 0.001); LGA's mean is 6.8.
"""
    found = kinds(answer, *FLIGHTS)
    assert [number for number, kind in found.items() if kind == "missing"] == ["21.2", "6.8"]
    assert (found["327,346"], found["8,048"], found["+7.4"], found["2.7"]) == (
        "difference",
        "difference",
        "change",
        "ratio",
    )


def test_spans_to_be_marked_are_those_of_numbers_that_are_missing_and_none_where_nothing_was_computed() -> None:
    answer = "`12` **55** of 42"
    ((start, end),) = untraced(answer, [Output("a", "42")])
    assert answer[start:end] == "55"
    assert untraced(answer, []) == untraced(answer, [Output("a", "done")]) == ()


def test_nothing_is_called_missing_where_outputs_are_too_long_to_be_read() -> None:
    long = "\n".join(f"x {number}.5" for number in range(1_000, 60_000))
    assert kinds("It is 7.25.", long) == {"7.25": "unread"}
    assert kinds("It is 1000.5 and 7.25.", long, "7.25") == {"1000.5": "exact", "7.25": "exact"}


HOSTILE = {
    "digits": "1",
    "points": "1.",
    "commas": "1,",
    "groups": "1 000",
    "blanks": "1 ",
    "ticks": "`1",
    "ticks of each length": "` `` ``` ",
    "opened links": "](1",
    "opened tags": "<a 1",
    "opened notes": "[1",
    "fences": "```\n",
    "quotes": "> 1",
    "lists": "- 1",
    "tables": "|1\n",
    "headings": "# 1\n",
    "months": "1 May ",
    "dates": "2024-01-0",
    "signs": "-+1e",
    "words": "about over 1 x",
    "differing numbers": "12.5 7.25 13.75 ",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_megabyte_of_anything_is_read_within_bounds(kind: str) -> None:
    text = HOSTILE[kind] * (1_000_000 // len(HOSTILE[kind]))
    assert len(trace(text, [Output("a", text)], text)) <= MAX_NUMBERS


@pytest.mark.parametrize("kind", HOSTILE)
def test_reading_takes_work_in_proportion_to_the_text(kind: str) -> None:
    def read(size: int) -> None:
        text = HOSTILE[kind] * (size // len(HOSTILE[kind]))
        numbers_of_answer(text)
        for _ in numbers_of_output(text):
            pass

    assert cpu_stays_in_proportion(MAX_CHARACTERS // 16, read)


def test_the_published_table_holds_for_other_seeds() -> None:
    everything = claims.Tally()
    for place, kind in enumerate(KINDS):
        for style in STYLES:
            everything.add(claims.measured(kind, style, range(7_000 + place, 7_002 + place)))
    assert everything.wrong > 80
    assert everything.wrong_flagged >= 0.95 * everything.wrong
    assert everything.right_flagged <= 0.02 * everything.right
    assert everything.numbers_flagged <= 0.02 * everything.numbers
