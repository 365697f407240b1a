"""Autolock: a smart lock of five components that share one set of settings.

Each component sees only what it uses, so only what it uses can restart it: `tests/data/autolock_effects.tsv` is the
wanted outcome, setting by setting. The programs in the containers come later; images are what the resource names.
"""

from pathlib import Path

import yaml

from autolock import settings as s
from hanei import (
    App,
    Claim,
    Column,
    Container,
    Deployment,
    Ingress,
    Own,
    Right,
    SecretRef,
    Seen,
    StatefulSet,
    as_json,
    secret,
)

HERE = Path(__file__).parent
SAMPLE = yaml.safe_load((HERE / "sample.yaml").read_text(encoding="utf-8"))
INIT_SQL = (HERE / "init.sql").read_text(encoding="utf-8")
CREDENTIALS = ("ROOT_PASSWORD", "DATABASE", "USER", "PASSWORD")
SPELLINGS = ("MARIADB", "MYSQL")
WEBAPP_PORT, WEBHOOK_PORT, DATABASE_PORT = 3000, 80, 3306

app = App(
    s.AutolockSpec, group="autolock.takuteh.uk", version="v1alpha1", kind="Autolock", plural="autolocks", sample=SAMPLE["spec"],
    columns=[Column("Direction", ".spec.main.config.main.rotate_direction"), Column("Timeout", ".spec.main.config.main.timeout_seq")],
)  # fmt: skip


def login(spec: s.AutolockSpec) -> dict[str, SecretRef]:
    """The application account of the user database, as files; either spelling of the image's keys is understood."""
    return {
        f"/run/autolock/db/{spelling}_{key}": secret(spec.authdb.secret_name, f"{spelling}_{key}", optional=True)
        for spelling in SPELLINGS
        for key in ("DATABASE", "USER", "PASSWORD")
    }


@app.component("main")
def lock(spec: s.AutolockSpec, own: Own) -> Deployment:
    """The lock controller; privileged, for it drives GPIO."""
    config = spec.main.config
    door = config.main.model_dump(mode="json") | {"timeout_seq": config.main.timeout_seq or "no"}
    mqtt = config.mqtt.model_dump(mode="json") | {"broker_address": config.mqtt.broker(own.service("mqtt"))}
    return Deployment(
        replicas=spec.main.replicas,
        containers=[
            Container(
                image=spec.main.image,
                files={"/etc/autolock/autolock_setting.json": as_json({"main": door, "mqtt": mqtt})},
                secret_files=login(spec),
                env={"AUTOLOCK_DB_HOST": own.service("authdb"), "AUTOLOCK_DB_PORT": DATABASE_PORT},
                privileged=True,
            )
        ],
    )


@app.component
def webapp(spec: s.AutolockSpec, own: Own) -> Deployment:
    """The settings page. It reads and patches its own resource through the API server, and nothing else."""
    return Deployment(
        replicas=spec.webapp.replicas,
        containers=[
            Container(
                image=spec.webapp.image,
                ports=[WEBAPP_PORT],
                secret_files=login(spec),
                env={
                    "AUTOLOCK_NAME": own.name,
                    "AUTOLOCK_NAMESPACE": own.namespace,
                    "AUTOLOCK_DB_HOST": own.service("authdb"),
                    "AUTOLOCK_DB_PORT": DATABASE_PORT,
                },
            )
        ],
        service=[WEBAPP_PORT],
        ingress=ingress(spec.webapp.ingress, WEBAPP_PORT),
        rights=[
            Right(group=own.group, resources=[own.plural], names=[own.name], verbs=["get", "list", "watch", "patch"])
        ],
    )


@app.component
def webhook(spec: s.AutolockSpec, own: Own) -> Deployment:
    """Receives LINE and Slack events and publishes requests: it needs the broker and the four request topics."""
    mqtt = spec.main.config.mqtt
    requests = mqtt.subscribe.model_dump(mode="json", include={"open", "close", "relay_on", "relay_off"})
    config = {"broker_address": mqtt.broker(own.service("mqtt")), "mqtt_port": mqtt.mqtt_port, "requests": requests}
    return Deployment(
        replicas=spec.webhook.replicas,
        containers=[
            Container(
                image=spec.webhook.image, ports=[WEBHOOK_PORT], files={"/etc/autolock/webhook.json": as_json(config)}
            )
        ],
        service=[WEBHOOK_PORT],
        ingress=ingress(spec.webhook.ingress, WEBHOOK_PORT),
    )


@app.component
def mqtt(spec: s.AutolockSpec, own: Own) -> StatefulSet:
    """The broker. Mosquitto brokers share no messages, so one runs, whatever `mqtt.replicas` says."""
    port = spec.main.config.mqtt.mqtt_port
    config = f"listener {port}\nallow_anonymous true\npersistence true\npersistence_location /mosquitto/data/\nlog_dest stdout\n"
    return StatefulSet(
        replicas=1,
        containers=[Container(image=spec.mqtt.image, ports=[port], files={"/mosquitto/config/mosquitto.conf": config})],
        claims=[Claim(size="50Mi", mount="/mosquitto/data")],
        service=[port],
    )


@app.component
def authdb(spec: s.AutolockSpec, own: Own) -> StatefulSet:
    """The user database. Its init SQL is read at the first start only, so a change of it restarts nothing."""
    names = [f"{spelling}_{key}" for spelling in SPELLINGS for key in CREDENTIALS]
    return StatefulSet(
        replicas=1,
        containers=[
            Container(
                image=spec.authdb.image,
                ports=[DATABASE_PORT],
                env={name: secret(spec.authdb.secret_name, name, optional=True) for name in names},
                live_files={"/docker-entrypoint-initdb.d/init.sql": INIT_SQL},
            )
        ],
        claims=[Claim(size="250Mi", mount="/var/lib/mysql")],
        service=[DATABASE_PORT],
    )


def ingress(wanted: s.Ingress, port: int) -> list[Ingress]:
    """The Ingress of a web part, if it is switched on."""
    if not wanted.enabled:
        return []
    return [
        Ingress(host=wanted.host, path=wanted.path, path_type=wanted.path_type, class_name=wanted.class_name, port=port)
    ]


@app.status
def notes(seen: Seen) -> list[str]:
    """What the settings ask for and does not happen, and why."""
    asked = seen.settings.mqtt.replicas if isinstance(seen.settings, s.AutolockSpec) else 1
    if asked == 1:
        return []
    return [
        f"mqtt.replicas is {asked}, and one broker runs: Mosquitto brokers share no messages, so several would split them"
    ]
