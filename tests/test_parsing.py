"""Trees of SELECTs: the allow-lists read the same of a statement, whichever DuckDB parses it."""

import pytest

from storage.query import parsing
from storage.query.parsing import is_readable, tree_of
from storage.query.sql_allowlist import nodes_of
from tests.attacks import ATTACKS, HIDDEN, LETHAL

ORDINARY = [
    "SELECT 1, 2.5, 'text', NULL, true, [1, 2][1:], {'a': 1}.a, INTERVAL 1 DAY, DATE '2026-01-01', $value",
    "SELECT name, count(*) FROM spans WHERE name LIKE '%a' AND x BETWEEN 1 AND 2 GROUP BY ALL ORDER BY 2 DESC",
    "WITH few AS MATERIALIZED (FROM spans) SELECT * EXCLUDE (name) FROM few s LEFT JOIN logs USING (trace_id) LIMIT 3",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT i::VARCHAR[] FROM n",
    "SELECT sum(x) FILTER (WHERE y) OVER (PARTITION BY z ORDER BY w) FROM (VALUES (1, true, 2, 3)) t(x, y, z, w)",
    "SELECT list_transform(l, lambda x: x + 1), x IN (FROM range(3)), NOT EXISTS (FROM spans), x NOT IN (1, 2) FROM t",
    "FROM (PIVOT spans ON name IN ('a') USING count(*)) UNION BY NAME FROM (UNPIVOT spans ON name, kind) LIMIT 5%",
    "SELECT x::STRUCT(a DECIMAL(9, 3)), TRY_CAST(x AS ENUM('a', 'b')), x COLLATE nocase FROM spans USING SAMPLE 3 ROWS",
    "FROM (SUMMARIZE spans), (SHOW TABLES) POSITIONAL JOIN range(3) WITH ORDINALITY",
]


@pytest.mark.parametrize("statement", ORDINARY, ids=range(len(ORDINARY)))
def test_the_tree_of_an_ordinary_select_is_known_and_whole(statement: str) -> None:
    """It has the fields that the allow-lists read: children of functions, values of constants, types of casts."""
    nodes = nodes_of(tree_of(statement))
    fields = {"FUNCTION": "children", "WINDOW": "children", "CONSTANT": "value", "CAST": "cast_type"}
    classed = [node for node in nodes if "class" in node]
    assert classed
    assert all(fields.get(node["class"], "class") in node for node in classed)
    ctes = [each for node in nodes for each in node.get("cte_map", {}).get("map", [])]
    assert all("node" in each["value"]["query"] for each in ctes)


@pytest.mark.parametrize("statement", [*ATTACKS, *HIDDEN, *LETHAL])
def test_no_form_of_a_tree_hides_a_part_of_an_attack(statement: str) -> None:
    """What both forms can express is the same in both, and what one of them cannot is refused."""
    forms = [parsing._serialized(form, statement) for form in (parsing._OLDEST, parsing._NEWEST)]
    assert bool(tree_of(statement)) is all(forms)


@pytest.mark.parametrize(
    "more",
    [
        "SELECT name, write_log('x') FROM spans",
        "SELECT name FROM spans, api_key",
        "SELECT name FROM spans WHERE (SELECT true)",
        "SELECT name::INT FROM spans",
    ],
)
def test_a_form_that_leaves_out_a_part_is_not_readable(more: str) -> None:
    """A function, table, subquery or cast that only the newest form has is missed; one of another kind is unknown."""
    oldest, newest = (parsing._serialized(parsing._OLDEST, text) for text in ("SELECT name FROM spans", more))
    assert not is_readable(oldest, newest)
    assert is_readable(oldest, oldest)
    assert not is_readable(oldest.replace("BASE_TABLE", "NEW_TABLE"), oldest)
