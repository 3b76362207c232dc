"""The files in deploy/ fit the program and each other, as far as that can be checked without containers."""

import configparser
import csv
import io
import json
import re
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from kubernetes_validate.utils import ValidationError, latest_version, validate
from prometheus_client.parser import text_string_to_metric_families

from collector.settings import Settings
from collector.settings_loading import load_settings
from tests.debian import promtool
from tests.live import PATIENCE_S, TRACEJURY
from tests.serving import a_server, an_export, post
from tests.source_tree import ROOT
from tests.storing import trace_id

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
KUBERNETES = {
    each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes" / "tracejury.yaml").read_text("utf-8"))
}
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
STOP_S = Settings().shutdown_seconds
DOORS = {4317, 4318, 8080}


def panels(source: str) -> list[Any]:
    """Return every panel of every dashboard that asks this kind of data source, named by dashboard and panel."""
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS]
    return [
        pytest.param(panel, id=f"{board['uid']}: {panel['title']}")
        for board in boards
        for panel in board["panels"]
        if panel["datasource"]["type"] == source
    ]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Yield a server with a trace of now, an evaluation of it, and one of a trace that has left."""
    results = """INSERT INTO evaluation BY NAME SELECT 1 AS job_id, 7 AS revision, seq, '' AS tenant, 'shop' AS project,
        trace_id, 0 AS round, 'tone' AS name, 'scored' AS outcome, 0.5 AS score, true AS passed, 1 AS attempts,
        now()::TIMESTAMP AS created_at FROM span LIMIT 1"""
    request = an_export(trace_id(1), "root", "step")
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.start_time_unix_nano, span.end_time_unix_nano = time.time_ns() - 10**9, time.time_ns()
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "execute_tool"
        span.attributes.add(key="gen_ai.tool.name").value.string_value = "search"
    with a_server(Path(tmp_path_factory.mktemp("deploy"))) as server:
        post(f"http://{server.otlp_http}/v1/traces", request.SerializeToString())
        assert server.store.wait_committed(PATIENCE_S)
        assert server.traces.wait_idle(PATIENCE_S)
        server.store._writer.store(lambda cursor: cursor.execute(results), 1)
        with httpx.Client(timeout=PATIENCE_S, base_url=f"http://{server.http}", trust_env=False) as client:
            yield client


@pytest.mark.parametrize("panel", panels("yesoreyeram-infinity-datasource"))
def test_every_panel_asks_what_the_views_answer(api: httpx.Client, panel: Any) -> None:
    """The SQL of each panel runs as Grafana would send it, and answers with the columns that the panel names."""
    (target,) = panel["targets"]
    now_ms = time.time_ns() // 1_000_000
    body = target["url_options"]["data"].replace("${__from}", str(now_ms - 600_000)).replace("${__to}", str(now_ms))
    answer = api.request(
        target["url_options"]["method"],
        target["url"],
        content=body,
        headers={"content-type": target["url_options"]["body_content_type"]},
    )
    assert answer.status_code == httpx.codes.OK, answer.text
    header, *rows = csv.reader(io.StringIO(answer.text))
    assert header == [column["selector"] for column in target["columns"]]
    if "LLM" not in body and "'llm'" not in body:
        assert rows, body
    for row in rows:
        for value, column in zip(row, target["columns"], strict=True):
            assert column["type"] != "number" or not value or float(value) >= 0
            assert column["type"] != "timestamp" or re.match(r"\d{4}-\d\d-\d\dT", value)


@pytest.fixture(scope="module")
def metrics(api: httpx.Client) -> dict[str, set[str]]:
    """Return the samples of /metrics, by name, with the names of their labels."""
    families = text_string_to_metric_families(api.get("/metrics").text)
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


RULES = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text(encoding="utf-8"))
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_is_about_metrics_that_there_are(metrics: dict[str, set[str]], alert: Any) -> None:
    """Its expression names samples of /metrics and labels that they have, or those of every scrape."""
    text = alert["expr"]
    names = set(re.findall(r"\b(?:tracejury_\w+|process_\w+|up)\b", text))
    assert names <= metrics.keys() | {"up"}, text
    labels = {label for name in names for label in metrics.get(name, ())} | {"job"}
    assert set(re.findall(r"[{,] ?(\w+)=", text)) <= labels, text
    by = {label for group in re.findall(r"by \(([^)]*)\)", text) for label in group.split(", ")}
    assert by <= labels
    assert set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"])) <= by
    functions = {"sum", "by", "rate", "increase", "delta", "changes", "predict_linear", "unless"}
    assert set(re.findall(r"\b([a-z_]+)(?= ?\()", text)) <= functions


def test_promtool_takes_the_rules_and_the_configuration(tmp_path: Path) -> None:
    """Prometheus' own tool finds nothing wrong with either, and would with an expression that is none."""
    check = promtool()
    shutil.copy(DEPLOY / "prometheus-rules.yaml", tmp_path / "tracejury-rules.yaml")
    configuration = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text(encoding="utf-8"))
    key = tmp_path / "key"
    key.write_text("k")
    configuration["scrape_configs"][0]["authorization"]["credentials_file"] = str(key)
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    subprocess.run([check, "check", "config", str(tmp_path / "prometheus.yml")], check=True)
    (tmp_path / "wrong.yaml").write_text((DEPLOY / "prometheus-rules.yaml").read_text().replace("> 900", ">> 900"))
    refused = subprocess.run([check, "check", "rules", str(tmp_path / "wrong.yaml")], capture_output=True, check=False)
    assert refused.returncode != 0


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """By promtool, over made-up series: a database that cannot be written, refusals, and counters that stand still."""
    series = {
        'tracejury_conditions{name="cannot_commit"}': "0x10 1x20",
        'tracejury_undecoded_requests_total{protocol="grpc",reason="overloaded"}': "0+60x30",
        "tracejury_matching_lag_seconds": "10x30",
        'tracejury_sweeps_total{outcome="failed"}': "0x30",
    }
    alerts = {
        ("8m", "TracejuryCannotCommit"): [],
        ("15m", "TracejuryCannotCommit"): [{"severity": "critical"}],
        ("10m", "TracejuryOverloaded"): [],
        ("25m", "TracejuryOverloaded"): [{"severity": "warning"}],
        ("25m", "TracejuryMatchingBehind"): [],
        ("25m", "TracejurySweepsFail"): [],
    }
    summaries = {alert["alert"]: alert["annotations"] for alert in ALERTS}
    test: dict[str, Any] = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {
                "eval_time": time,
                "alertname": name,
                "exp_alerts": [{"exp_labels": labels, "exp_annotations": summaries[name]} for labels in fired],
            }
            for (time, name), fired in alerts.items()
        ],
    }
    labelled = {"TracejuryCannotCommit": {"name": "cannot_commit"}}
    for each in test["alert_rule_test"]:
        for expected in each["exp_alerts"]:
            expected["exp_labels"] |= labelled.get(each["alertname"], {})
    rules = str(DEPLOY / "prometheus-rules.yaml")
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": [rules], "tests": [test]}))
    subprocess.run([promtool(), "test", "rules", str(tmp_path / "test.yaml")], check=True)


def test_the_operator_of_prometheus_is_given_the_same_rules(api: httpx.Client) -> None:
    """The ServiceMonitor finds the Service by its labels and port, and has the Secret's key; the rules are the same."""
    text = (DEPLOY / "kubernetes" / "monitoring.yaml").read_text(encoding="utf-8")
    monitor, rule = yaml.safe_load_all(text)
    assert [each["apiVersion"] for each in (monitor, rule)] == ["monitoring.coreos.com/v1"] * 2
    assert (monitor["kind"], rule["kind"]) == ("ServiceMonitor", "PrometheusRule")
    service = KUBERNETES["Service"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"] if port["port"] == 8080}
    assert api.get(endpoint["path"]).status_code == httpx.codes.OK
    variables = KUBERNETES["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["env"]
    secrets = [each["valueFrom"]["secretKeyRef"] for each in variables if "valueFrom" in each]
    assert endpoint["authorization"] == {"type": "Bearer", "credentials": secrets[0]}
    assert service["metadata"]["name"] == "tracejury"  # the target's label `job`, which the rules use
    assert rule["spec"] == RULES


ONLY_WITH_AN_ENDPOINT = {"tracejury_results_told_total": {"outcome"}, "tracejury_results_untold": set[str]()}
FUNCTIONS = {"sum", "by", "rate", "increase", "histogram_quantile"}


@pytest.mark.parametrize("panel", panels("prometheus"))
def test_every_panel_asks_for_metrics_that_there_are(metrics: dict[str, set[str]], panel: Any) -> None:
    """PromQL names only samples of /metrics and labels that they have, and counters as rates."""
    samples = metrics | ONLY_WITH_AN_ENDPOINT
    for target in panel["targets"]:
        text = target["expr"]
        (name,) = re.findall(r"\b(?:tracejury|process)_\w+", text)
        assert name in samples, text
        labels = {label for group in re.findall(r"by \(([^)]*)\)", text) for label in group.split(", ")}
        labels |= set(re.findall(r"[{,](\w+)=", text))
        assert labels <= samples[name], text
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels
        assert set(re.findall(r"\b([a-z_]+)(?= ?\()", text)) <= FUNCTIONS
        assert text.count("(") == text.count(")")
        is_counter = name.endswith(("_total", "_bucket"))
        assert is_counter == bool(re.search(r"(?:rate|increase)\(\w+(?:\{.*\})?\[(?:\$__rate_interval|1h)\]\)", text))


def test_every_metric_of_the_server_can_be_scraped_with_what_is_provisioned(api: httpx.Client) -> None:
    """Prometheus asks the path, the host and with the key that compose gives it, and Grafana asks that Prometheus."""
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text("utf-8"))["scrape_configs"]
    assert api.get(job["metrics_path"]).status_code == httpx.codes.OK
    ((target,),) = (each["targets"] for each in job["static_configs"])
    assert target == "tracejury:8080"
    service = COMPOSE["services"]["prometheus"]
    (secret,) = service["secrets"]
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{secret}"
    assert COMPOSE["secrets"][secret] == {"environment": "TRACEJURY_API_KEY"}
    sources = yaml.safe_load((DEPLOY / "grafana" / "datasources" / "tracejury.yaml").read_text("utf-8"))["datasources"]
    assert [source["url"] for source in sources if source["type"] == "prometheus"] == ["http://prometheus:9090"]


def test_dashboards_name_data_sources_that_are_provisioned() -> None:
    """Ids are unique, and every panel asks a data source of deploy/grafana."""
    sources = yaml.safe_load((DEPLOY / "grafana" / "datasources" / "tracejury.yaml").read_text("utf-8"))["datasources"]
    uids = {source["uid"]: source["type"] for source in sources}
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS]
    assert len({board["uid"] for board in boards}) == len(boards) == 4
    for board in boards:
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        for panel in board["panels"]:
            for data_source in (panel["datasource"], *(target["datasource"] for target in panel["targets"])):
                assert uids[data_source["uid"]] == data_source["type"]
    provider = yaml.safe_load((DEPLOY / "grafana" / "dashboards" / "tracejury.yaml").read_text("utf-8"))
    mounted = [volume.split(":")[1] for volume in COMPOSE["services"]["grafana"]["volumes"]]
    assert provider["providers"][0]["options"]["path"] in mounted


def test_the_image_runs_as_nobody_in_particular() -> None:
    """The last stage has a user that is not root, a health check, and copies only files of the repository."""
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001$", last, re.MULTILINE)
    assert re.search(r'^HEALTHCHECK [^[]*CMD \["tracejury", "health"\]$', last, re.MULTILINE)
    assert {int(port) for port in re.findall(r"\d+", re.findall(r"^EXPOSE (.*)$", last, re.MULTILINE)[0])} == DOORS
    copied = [word for line in re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.MULTILINE) for word in line.split()]
    assert [path for path in copied if not (ROOT / path).exists()] == []
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{path}" for path in copied} <= set(ignore)
    variables = dict(re.findall(r"(TRACEJURY_\w+)=(\S+)", last))
    assert load_settings(None, {}, variables).data == Path("/data")


def test_the_compose_file_hangs_together() -> None:
    """Files that are mounted exist, doors are published on the loopback only, and stopping has time enough."""
    services = COMPOSE["services"]
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        assert set(service.get("depends_on", ())) <= services.keys()
    assert (DEPLOY / services["tracejury"]["build"]["dockerfile"].removeprefix("deploy/")).exists()
    assert int(services["tracejury"]["stop_grace_period"].removesuffix("s")) > STOP_S
    environment = services["tracejury"]["environment"]
    assert environment["TRACEJURY_API_KEY"].startswith("${TRACEJURY_API_KEY:?")  # it does not start without one
    load_settings(None, {}, environment | {"TRACEJURY_API_KEY": "k" * 32})


def test_the_collector_keeps_its_queue_on_a_disk() -> None:
    """Acknowledged data waits in a volume, whose first mount gives it the Collector's user, and not in memory."""
    collector = yaml.safe_load((DEPLOY / "otel-collector.yaml").read_text(encoding="utf-8"))
    exporter = collector["exporters"]["otlp"]
    assert exporter["endpoint"] == "tracejury:4317"
    for pipeline in collector["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= collector[kind].keys()
        assert not [name for name in pipeline["processors"] if name.startswith("batch")]
    storage = exporter["sending_queue"]["storage"]
    assert storage in collector["service"]["extensions"]
    service, owner = (COMPOSE["services"][name] for name in ("otel-collector", "otel-queue"))
    assert service["image"].startswith("otel/opentelemetry-collector-contrib:")
    assert f"otel-queue:{collector['extensions'][storage]['directory']}" in service["volumes"]
    assert owner["volumes"] == ["otel-queue:/data"]
    assert "VOLUME /data" in DOCKERFILE
    assert service["depends_on"]["otel-queue"] == {"condition": "service_completed_successfully"}


def test_the_compose_file_is_what_compose_takes(tmp_path: Path) -> None:
    """It fits the schema of the Compose specification, in which an unknown key is an error."""
    validator = str(Path(sysconfig.get_path("scripts"), "check-jsonschema"))
    fits = [validator, "--builtin-schema", "vendor.compose-spec"]  # which it brings along, and need not fetch
    subprocess.run([*fits, str(DEPLOY / "compose.yaml")], check=True)
    wrong = tmp_path / "compose.yaml"
    tracejury = COMPOSE["services"]["tracejury"]
    wrong.write_text(yaml.safe_dump(COMPOSE | {"services": {"tracejury": tracejury | {"stop_grace_perod": "60s"}}}))
    refused = subprocess.run([*fits, str(wrong)], stdout=subprocess.PIPE, text=True, check=False)
    assert (refused.returncode, "stop_grace_perod" in refused.stdout) == (1, True)


def test_the_kubernetes_manifest_hangs_together(api: httpx.Client, tmp_path: Path) -> None:
    """Labels, ports, volumes and configuration fit each other, the probes ask routes that exist, and one runs."""
    stateful = KUBERNETES["StatefulSet"]["spec"]
    pod, labels = stateful["template"]["spec"], stateful["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    assert stateful["replicas"] == 1
    assert stateful["selector"]["matchLabels"] == labels == KUBERNETES["Service"]["spec"]["selector"]
    assert stateful["serviceName"] == KUBERNETES["Service"]["metadata"]["name"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert set(ports.values()) == DOORS
    assert all(ports[port["targetPort"]] == port["port"] for port in KUBERNETES["Service"]["spec"]["ports"])
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container[name]["httpGet"]
        assert ports[probe["port"]] == 8080
        assert api.get(probe["path"]).status_code == httpx.codes.OK
    volumes = {volume["name"] for volume in pod["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    file = tmp_path / "config.yaml"
    file.write_text(KUBERNETES["ConfigMap"]["data"]["config.yaml"], encoding="utf-8")
    settings = load_settings(file, {}, {})
    assert {int(address.rpartition(":")[2]) for address in (settings.grpc, settings.otlp_http, settings.http)} == DOORS
    assert pod["terminationGracePeriodSeconds"] > settings.shutdown_seconds
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("kind", sorted(KUBERNETES))
def test_the_manifest_is_what_kubernetes_takes(kind: str) -> None:
    """Each object fits the schema of its kind, in which an unknown field is an error."""
    version = latest_version()
    assert version.startswith(validate(KUBERNETES[kind], version, strict=True))  # which raises, or tells the schemas
    wrong = KUBERNETES[kind] | {"metadta": {}}
    with pytest.raises(ValidationError):
        validate(wrong, version, strict=True)


def test_the_unit_starts_the_command_that_there_is() -> None:
    """The systemd unit runs `tracejury serve` as a user of its own, with time enough to stop."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # its keys are case-sensitive
    unit.read(DEPLOY / "tracejury.service", encoding="utf-8")
    service = unit["Service"]
    assert " serve --config " in service["ExecStart"]
    assert service["User"] not in {"", "root"}
    assert service["EnvironmentFile"].startswith("-")  # there need not be one
    assert (service["Type"], service["NotifyAccess"], int(service["WatchdogSec"]) > 0) == ("notify", "main", True)
    assert service["ExecStart"].endswith(f"/var/lib/{service['StateDirectory']}")
    assert int(service["TimeoutStopSec"]) > STOP_S


def test_the_unit_is_what_systemd_takes(tmp_path: Path) -> None:
    """Systemd itself finds nothing wrong with it, and would with a key that it does not know."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("NOT CHECKED: there is no systemd-analyze here")
    text = (DEPLOY / "tracejury.service").read_text(encoding="utf-8").replace("/opt/tracejury/bin/tracejury", TRACEJURY)
    unit = tmp_path / "tracejury.service"
    for right, wrong in ((text, False), (text.replace("WatchdogSec=", "WatchdogSecs="), True)):
        unit.write_text(right)
        verified = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
        assert bool(verified.returncode or "tracejury.service" in verified.stderr) is wrong, verified.stderr
