"""Xids, classed by what they call for: the job's owner, a reset, a reboot, a person with a screwdriver.

They come from the driver's events and from the kernel's log since boot, joined and counted. An application's
own fault never costs the card; it is told for an hour. What calls for more stands until the card has
recovered: it was reset, reloaded or rebooted, or it has answered for ten minutes while its driver asked for
nothing (for a day where the driver is too old to ask).

Which Xid calls for what is the catalogue's to say (``gpumesh/health/xid_catalogue.py``); each rule below is
one of its classes, and names the Xids in it.

Thresholds:

- ``application``: Xid 8, 13, 31, 32, 43, 45, 68 or 69 in the last 1 h. Keys: ``xid_told_for``. Source:
  NVIDIA's Xid catalogue; k8s-device-plugin ignores them too.
- ``note``: Xid 38, 44, 63 or 92 in the last 1 h. Keys: ``xid_told_for``. Source: NVIDIA's Xid catalogue.
- ``contained``: Xid 94 in the last 1 h. Keys: ``xid_told_for``. Source: NVIDIA's Xid catalogue.
- ``reset``: Xid 46, 62, 95, 109, 119, 120, 140, 143 or 158 since the card last recovered. Keys:
  ``xid_settle``, ``xid_settle_untold``. Source: NVIDIA's Xid catalogue.
- ``hardware``: Xid 48, 74 or 144 to 150 since the card last recovered. Keys: ``xid_settle``,
  ``xid_settle_untold``. Source: NVIDIA's Xid catalogue.
- ``replace``: Xid 64 since the card last recovered. Keys: ``xid_settle``, ``xid_settle_untold``. Source:
  NVIDIA's Xid catalogue.
- ``off-the-bus``: Xid 79, or the kernel says without an Xid that a card has fallen off the bus, since it last
  recovered. Keys: ``xid_settle``, ``xid_settle_untold``. Source: NVIDIA's Xid catalogue; NVSentinel#155.
- ``cables``: Xid 54 since the card last recovered. Keys: ``xid_settle``, ``xid_settle_untold``. Source:
  NVIDIA's Xid catalogue.
- ``report``: Xid 61 since the card last recovered. Keys: ``xid_settle``, ``xid_settle_untold``. Source:
  NVIDIA's Xid catalogue.
- ``recovery``: Xid 154: the driver asks for a recovery action, and has not taken it back. Source: NVIDIA's
  Xid catalogue.
- ``recovery-changed``: Xid 154 in the last 1 h, without the kernel's words for it. Keys: ``xid_told_for``.
  Source: NVIDIA's Xid catalogue.
- ``unknown``: any other Xid since the card last recovered. Keys: ``xid_settle``, ``xid_settle_untold``.
  Source: own judgement: k8s-device-plugin takes the card out of service.
- ``log-unreadable``: the kernel's log cannot be read: Xids are known from the driver's events alone. Source:
  NVSentinel#1532.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from gpumesh.config import Config
from gpumesh.health.checks import recovery_action
from gpumesh.health.rules import HOST, HostCheck, Look, Rule, SeeHost, Symptom, subject_of
from gpumesh.health.xid_catalogue import Calls, kind_of
from gpumesh.health.xid_lines import place_of
from gpumesh.health.xid_words import words
from gpumesh.health.xids import XidRecord
from gpumesh.model import Action, Scalar, Severity

NAME: Final = "xid"
_SOURCE: Final = "NVIDIA's Xid catalogue"
_CLEAR_S: Final = 60.0


def _rule(
    code: str, xids: str, severity: Severity, action: Action, *, advice: str, source: str = _SOURCE
) -> Rule:
    clear_s = 0.0 if severity is Severity.INFO else _CLEAR_S
    goes_by = ("xid_settle", "xid_settle_untold") if "recovered" in xids else ()
    return Rule(NAME, code, xids, severity, action, source, advice=advice, clear_s=clear_s, goes_by=goes_by)


APPLICATION = _rule(
    Calls.APPLICATION.value,
    "Xid 8, 13, 31, 32, 43, 45, 68 or 69 in the last {xid_told_for}",
    Severity.INFO,
    Action.TELL_OWNER,
    advice="the program failed, not the card: its owner should look at it; the card stays in service",
    source=f"{_SOURCE}; k8s-device-plugin ignores them too",
)
NOTE = _rule(
    Calls.NOTE.value,
    "Xid 38, 44, 63 or 92 in the last {xid_told_for}",
    Severity.INFO,
    Action.NONE,
    advice="nothing to do",
)
CONTAINED = _rule(
    Calls.CONTAINED.value,
    "Xid 94 in the last {xid_told_for}",
    Severity.INFO,
    Action.TELL_OWNER,
    advice="one job lost its memory and must start again; the card stays, its row is remapped at a reset",
)
RESET = _rule(
    Calls.RESET.value,
    "Xid 46, 62, 95, 109, 119, 120, 140, 143 or 158 since the card last recovered",
    Severity.CRITICAL,
    Action.RESET,
    advice="drain the card, then `nvidia-smi --gpu-reset -i <index>`, or reboot if that is refused",
)
HARDWARE = _rule(
    Calls.HARDWARE.value,
    "Xid 48, 74 or 144 to 150 since the card last recovered",
    Severity.CRITICAL,
    Action.RESET,
    advice="drain and reset the card; if it comes back, the numbers behind the Xid in the kernel's log name "
    "the part",
)
REPLACE = _rule(
    Calls.REPLACE.value,
    "Xid 64 since the card last recovered",
    Severity.CRITICAL,
    Action.RESET,
    advice="drain and reset the card; if it comes back, have the card replaced",
)
OFF_BUS = _rule(
    "off-the-bus",
    "Xid 79, or the kernel says without an Xid that a card has fallen off the bus, since it last recovered",
    Severity.CRITICAL,
    Action.REBOOT,
    advice="reboot the host; if it comes back, look at power, risers, slot and heat",
    source=f"{_SOURCE}; NVSentinel#155",
)
CABLES = _rule(
    Calls.CABLES.value,
    "Xid 54 since the card last recovered",
    Severity.WARNING,
    Action.INSPECT,
    advice="check the card's power cables",
)
REPORT = _rule(
    Calls.REPORT.value,
    "Xid 61 since the card last recovered",
    Severity.WARNING,
    Action.INSPECT,
    advice="report it to the card's vendor with `nvidia-bug-report.sh`; a reset gets the card going again",
)
RECOVERY = _rule(
    Calls.RECOVERY.value,
    "Xid 154: the driver asks for a recovery action, and has not taken it back",
    Severity.CRITICAL,
    Action.RESET,
    advice="do what the driver asks for",
)
RECOVERY_CHANGED = _rule(
    "recovery-changed",
    "Xid 154 in the last {xid_told_for}, without the kernel's words for it",
    Severity.INFO,
    Action.NONE,
    advice="see `recovery-action`: it tells what the driver asks for now",
)
UNKNOWN = _rule(
    Calls.UNKNOWN.value,
    "any other Xid since the card last recovered",
    Severity.WARNING,
    Action.INSPECT,
    advice="look the number up in NVIDIA's Xid catalogue",
    source="own judgement: k8s-device-plugin takes the card out of service",
)
UNREADABLE = _rule(
    "log-unreadable",
    "the kernel's log cannot be read: Xids are known from the driver's events alone",
    Severity.INFO,
    Action.CONFIGURE,
    advice="the packaged unit grants CAP_SYSLOG and reading /dev/kmsg; do the same",
    source="NVSentinel#1532",
)

_RULES: Final[Mapping[Calls, Rule]] = MappingProxyType(
    {
        Calls.APPLICATION: APPLICATION,
        Calls.NOTE: NOTE,
        Calls.CONTAINED: CONTAINED,
        Calls.RESET: RESET,
        Calls.HARDWARE: HARDWARE,
        Calls.REPLACE: REPLACE,
        Calls.REBOOT: OFF_BUS,
        Calls.CABLES: CABLES,
        Calls.REPORT: REPORT,
        Calls.UNKNOWN: UNKNOWN,
    }
)


def see(look: Look) -> Iterator[Symptom]:
    """Say which Xids still matter, each to its card, or to the host where the card has no name."""
    cards = look.stock.inventory.cards
    subjects = {place_of(card.pci_bus_id): subject_of(card.uuid) for card in cards}
    if look.host.kernel_log_error and cards:
        reason = f"Xids from before the start are not known: {look.host.kernel_log_error}"
        yield Symptom(UNREADABLE, HOST, reason)
    for record in look.xids:
        judged = _judged(record, look.now, look.config.health.xid_told_for_s)
        if judged is not None:
            rule, action, wording = judged
            subject = subjects.get(record.place, HOST)
            reason = words(record, look.unix - look.now) + wording
            if subject == HOST:
                reason += f", on a card at {record.place} that the driver has not named"
            item = f"{record.place}/{record.xid}"
            if rule is OFF_BUS:
                item = record.place
            yield Symptom(rule, subject, reason, _evidence(record), item=item, action=action)


def _judged(record: XidRecord, now: float, told_for_s: float) -> tuple[Rule, Action | None, str] | None:
    """Return the rule that a record breaks now, its action if that depends, and what to add to the reason."""
    calls = kind_of(record.xid).calls
    is_recent = now - record.last_at < told_for_s
    if calls is Calls.RECOVERY:
        if record.asked is None:
            return (RECOVERY_CHANGED, None, "") if is_recent else None
        if record.asked == 0 or record.is_settled:
            return None
        rule, asked = recovery_action.ACTIONS.get(
            record.asked, (recovery_action.OTHER, f"recovery action {record.asked}")
        )
        return RECOVERY, rule.action, f": {asked}"
    rule = _RULES[calls]
    is_standing = is_recent if rule.severity is Severity.INFO else not record.is_settled
    return (rule, None, "") if is_standing else None


def _evidence(record: XidRecord) -> dict[str, Scalar]:
    evidence: dict[str, Scalar] = {"count": record.num_seen}
    if record.xid is not None:
        evidence["xid"] = record.xid
    if record.pid is not None:
        evidence["pid"] = record.pid
    return evidence


def _start(_config: Config) -> SeeHost:
    return see


CHECK = HostCheck(
    NAME,
    __doc__,
    (
        APPLICATION,
        NOTE,
        CONTAINED,
        RESET,
        HARDWARE,
        REPLACE,
        OFF_BUS,
        CABLES,
        REPORT,
        RECOVERY,
        RECOVERY_CHANGED,
        UNKNOWN,
        UNREADABLE,
    ),
    _start,
)
