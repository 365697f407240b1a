"""The settings of an Autolock: the published resource `autolocks.autolock.takuteh.uk/v1alpha1`, field by field.

Field names are the resource's own. A resource that leaves a field out gets the value of the published sample.
"""

from typing import Literal

from hanei import Settings, setting

OWN_BROKER = ("", "autolock-mqtt-broker")
"""Addresses that mean this resource's own broker: upstream's fixed Service name, or none at all."""


def text(default: str, doc: str, en: str, ja: str) -> str:
    """A text setting with a label in both languages."""
    value: str = setting(default, max_length=253, doc=doc, label={"en": en, "ja": ja})
    return value


class Door(Settings):
    """How the lock behaves."""

    autolock: bool = setting(
        True, doc="Lock by itself when the door closes.", label={"en": "Auto lock", "ja": "オートロック"}
    )
    timeout_seq: int = setting(
        300, ge=0, le=86400, format="int32", unit="s", label={"en": "Time-out", "ja": "タイムアウト秒数"},
        doc="Lock after this long unlocked with the door closed; 0 means never.",
    )  # fmt: skip
    ignore_clsw: bool = setting(
        False,
        doc="Ignore the lock button while the door is open.",
        label={"en": "Ignore lock button while open", "ja": "ドア開時の閉ボタンの無視"},
    )
    rotate_direction: Literal["left", "right"] = setting(
        "left", doc="Which way the thumb-turn opens.", label={"en": "Opening direction", "ja": "解錠時の回転方向"}
    )
    authorize_internal_users: bool = setting(
        False,
        doc="Check the user table for requests that name no app (plain MQTT).",
        label={"en": "Authorize internal requests", "ja": "内部からの通信の認証"},
    )
    authorize_external_users: bool = setting(
        True,
        doc="Check the user table for requests that come from an app (LINE, Slack).",
        label={"en": "Authorize external requests", "ja": "外部からの通信の認証"},
    )


class Message(Settings):
    """A topic and the message on it."""

    topic: str = setting(min_length=1, max_length=253, doc="The MQTT topic.", label={"en": "Topic", "ja": "トピック"})
    message: str = setting(
        "1", max_length=253, doc="The message that does it.", label={"en": "Message", "ja": "メッセージ"}
    )


class Topic(Settings):
    """A topic alone."""

    topic: str = setting(
        "/autolock/change_conf", max_length=253, doc="The MQTT topic.", label={"en": "Topic", "ja": "トピック"}
    )


class Publish(Settings):
    """What the lock publishes."""

    boot: Message = setting(Message(topic="/autolock/boot", message="start"), doc="Sent once at start.")


class Subscribe(Settings):
    """What the lock listens to."""

    open: Message = setting(Message(topic="/door/open"), doc="Unlocks the door.")
    close: Message = setting(Message(topic="/door/close"), doc="Locks the door.")
    relay_on: Message = setting(Message(topic="/door/relay_on"), doc="Switches the relay on.")
    relay_off: Message = setting(Message(topic="/door/relay_off"), doc="Switches the relay off.")
    change_config: Topic = setting(Topic(), doc="Settings may be changed over MQTT.")


class Mqtt(Settings):
    """Where the broker is, and what is said over it."""

    broker_address: str = text(
        "", "Where the broker is; empty: this resource's own.", "Broker address", "ブローカーのアドレス"
    )
    mqtt_port: int = setting(
        1883,
        ge=1,
        le=65535,
        format="int32",
        doc="The broker's port.",
        label={"en": "Broker port", "ja": "ブローカーのポート"},
    )
    publish: Publish = setting(Publish())
    subscribe: Subscribe = setting(Subscribe())

    def broker(self, own_service: str) -> str:
        """The address to connect to, given the name of this resource's own broker Service."""
        return own_service if self.broker_address in OWN_BROKER else self.broker_address


class LockConfig(Settings):
    """The settings file of the lock."""

    main: Door = setting(Door())
    mqtt: Mqtt = setting(Mqtt())


class Ingress(Settings):
    """How a web part is reached from outside."""

    enabled: bool = setting(
        False, doc="Whether there is an Ingress.", label={"en": "Reachable from outside", "ja": "外部公開"}
    )
    class_name: str = setting(
        "",
        alias="className",
        max_length=253,
        doc="The Ingress class.",
        label={"en": "Ingress class", "ja": "Ingress クラス"},
    )
    host: str = setting("", max_length=253, doc="The host name.", label={"en": "Host", "ja": "ホスト名"})
    path: str = setting("/", pattern="^/", max_length=253, doc="The path.", label={"en": "Path", "ja": "パス"})
    path_type: Literal["Prefix", "Exact", "ImplementationSpecific"] = setting(
        "Prefix", alias="pathType", doc="How the path is compared.", label={"en": "Path type", "ja": "パスの種類"}
    )


def image() -> str:
    """The image setting of a component: required, never empty, not for the settings page."""
    value: str = setting(
        min_length=1, max_length=1000, klass="image", doc="The image it runs.", label={"en": "Image", "ja": "イメージ"}
    )
    return value


def replicas(doc: str = "How many pods.") -> int:
    """The number of a component's pods."""
    value: int = setting(1, ge=0, le=100, format="int32", doc=doc, label={"en": "Pods", "ja": "ポッド数"})
    return value


class Main(Settings):
    """The lock controller."""

    image: str = image()
    replicas: int = replicas("How many pods: one drives the lock, the others stand by.")
    config: LockConfig = setting(LockConfig())


class Web(Settings):
    """A part with a web address."""

    image: str = image()
    replicas: int = replicas()
    ingress: Ingress = setting(Ingress())


class Broker(Settings):
    """The MQTT broker."""

    image: str = image()
    replicas: int = replicas("Kept for compatibility: brokers share no messages, so one runs whatever the number.")


class AuthDb(Settings):
    """The user database."""

    image: str = image()
    secret_name: str = setting(
        alias="secretName",
        min_length=1,
        max_length=253,
        secret=True,
        klass="rights",
        doc="The Secret with the database's credentials.",
        label={"en": "Credentials", "ja": "認証情報"},
    )


class AutolockSpec(Settings):
    """A smart lock: the lock controller, its web parts, its broker and its user database."""

    main: Main
    webapp: Web
    webhook: Web
    mqtt: Broker
    authdb: AuthDb
