"""Choice of the columns and rows that a parsed SELECT needs of its tables: only these are sent to a child process."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from storage.query.sql_allowlist import nodes_of

_Node: TypeAlias = dict[str, Any]

_Test: TypeAlias = Callable[[Sequence[_Node]], bool]

_CATALOGS: Final = frozenset(("", "tracejury"))
_SCHEMAS: Final = frozenset(("", "main"))
_INNER: Final = frozenset(("INNER",))
_SIMPLE: Final = frozenset(
    "BETWEEN CASE CAST COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION OPERATOR PARAMETER".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table or view that a SELECT reads."""

    name: str
    alias: str
    tree: str  # tree of `SELECT * FROM name AS alias WHERE …`, with the SELECT's conditions on this relation alone
    words: frozenset[str] | None  # lower-case words, a superset of the columns it reads; None: it may read all

    def columns(self, described: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return names and types of the columns that are needed, at least one."""
        words = self.words
        if words is None:
            return list(described)
        return [each for each in described if each[0].lower() in words] or list(described[:1])


def relations_of(tree: str, known: Collection[str], is_bounded: _Test) -> list[Relation]:
    """Return the relations with `known` names that a SELECT reads, given as the tree of `json_serialize_sql`.

    A relation that the SELECT names only once is filtered by the SELECT's conditions for which `is_bounded` is True.

    """
    nodes = nodes_of(tree)
    tables = [node for node in nodes if node.get("type") == "BASE_TABLE" and _is_ours(node, known)]
    count = Counter(node["table_name"].lower() for node in tables)
    defined = {each["key"].lower() for node in nodes for each in node.get("cte_map", {}).get("map", [])}
    conditions = {} if defined & set(count) else _conditions(nodes, is_bounded)
    words = _words(nodes, tables)
    relations = []
    for table in {node["table_name"].lower(): node for node in tables}.values():
        name = table["table_name"].lower()
        own = conditions.get(id(table), []) if count[name] == 1 else []
        relations.append(Relation(name=name, alias=table["alias"] or name, tree=_selecting(table, own), words=words))
    return relations


def _is_ours(node: _Node, known: Collection[str]) -> bool:
    return (
        node["table_name"].lower() in known
        and node["catalog_name"].lower() in _CATALOGS
        and node["schema_name"].lower() in {*_SCHEMAS, *_CATALOGS}
    )


def _words(nodes: Sequence[_Node], tables: Sequence[_Node]) -> frozenset[str] | None:
    """Return all texts in the tree, a superset of the columns that it reads; None if it may read unnamed ones."""
    whole = {name.lower() for table in tables for name in (table["table_name"], table["alias"])}
    for node in nodes:
        names = node.get("column_names", ())
        if (
            node.get("class") in {"STAR", "POSITIONAL_REFERENCE"}
            or node.get("ref_type") == "NATURAL"
            or str(node.get("type")) in {"SHOW_REF", "PIVOT"}
            or (node.get("type") == "BASE_TABLE" and node["column_name_alias"])
            or (len(names) == 1 and names[0].lower() in whole)
        ):
            return None
    return frozenset(text.lower() for node in nodes for text in _texts(list(node.values())))


def _texts(values: Sequence[object]) -> list[str]:
    texts: list[str] = []
    for value in values:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, list):
            texts += _texts(value)
    return texts


def _conditions(nodes: Sequence[_Node], is_bounded: _Test) -> dict[int, list[_Node]]:
    """Return by table those conditions of the WHERE clause that depend on rows of this table alone."""
    by_table: dict[int, list[_Node]] = {}
    for node in nodes:
        where = node.get("where_clause")
        if node.get("type") != "SELECT_NODE" or where is None:
            continue
        parts = where["children"] if where["type"] == "CONJUNCTION_AND" else [where]
        tables = _joined(node["from_table"])
        for table in tables:
            alone = len(tables) == 1 and table is node["from_table"]
            by_table[id(table)] = [
                part for part in parts if _is_about(part, table, alone=alone) and is_bounded(_inside(part))
            ]
    return by_table


def _joined(table: _Node) -> list[_Node]:
    """Return the tables of inner joins: filtering one of these before the join gives the same result."""
    if table.get("type") == "BASE_TABLE":
        return [table]
    if table.get("type") == "JOIN" and table["join_type"] in _INNER and table["ref_type"] in {"REGULAR", "CROSS"}:
        return _joined(table["left"]) + _joined(table["right"])
    return []


def _is_about(part: _Node, table: _Node, *, alone: bool) -> bool:
    """Return True if a condition names columns of this table only, and consists of allowed parts."""
    name = (table["alias"] or table["table_name"]).lower()
    for node in _inside(part):
        if "class" in node and node["class"] not in _SIMPLE:
            return False
        names = node.get("column_names")
        if names is None:
            continue
        if len(names) == 1 and not alone:
            return False
        if len(names) > 1 and names[0].lower() != name:
            return False
    return True


def _inside(part: _Node) -> list[_Node]:
    return nodes_of(json.dumps(part))


def _selecting(table: _Node, conditions: Sequence[_Node]) -> str:
    """Return the tree of a SELECT of all columns of a table's rows that match the conditions."""
    where: Mapping[str, Any] | None = None
    if conditions:
        where = {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "query_location": 0}
        where = {**where, "children": list(conditions)}
    star = {"class": "STAR", "type": "STAR", "alias": "", "query_location": 0, "relation_name": "", "exclude_list": []}
    star |= {"replace_list": [], "columns": False, "expr": None, "qualified_exclude_list": [], "rename_list": []}
    node: _Node = {
        "type": "SELECT_NODE",
        "modifiers": [],
        "cte_map": {"map": []},
        "select_list": [star],
        "from_table": {**table, "sample": None, "column_name_alias": []},
        "where_clause": where,
        "group_expressions": [],
        "group_sets": [],
        "aggregate_handling": "STANDARD_HANDLING",
        "having": None,
        "sample": None,
        "qualify": None,
    }
    return json.dumps({"error": False, "statements": [{"node": node, "named_param_map": []}]})
