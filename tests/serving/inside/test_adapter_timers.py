"""What adapters cost the engine's thread, as the log of one process tells it."""

from __future__ import annotations

from serving.inside.adapter_timers import LoraLog, label
from serving.wire.events import LoadSpan


class Manager:
    """As much of vLLM's LoRA manager as the log looks at."""

    def __init__(self) -> None:
        self.lora_index_to_id: list[int | None] = [None, None]
        self.host: set[int] = set()

    def list_adapters(self) -> set[int]:
        return self.host


def test_a_load_is_a_read_up_to_its_first_activation() -> None:
    log, manager, told = LoraLog(), Manager(), []
    log.on_change = lambda: told.append(log.drain())
    log.reading(10, 4096)
    log.activated(50, 60)
    manager.host, manager.lora_index_to_id = {1}, [None, 1]
    log.added(1, "law@12345678", manager)
    assert told == [(LoadSpan("law", "read", 10, 50, False, 4096), LoadSpan("law", "activate", 50, 60, True, 0))]
    assert (log.slots, log.host) == (("law@12345678",), {1: "law@12345678"})


def test_an_activation_of_a_resident_adapter_is_not_a_load() -> None:
    log, manager = LoraLog(), Manager()
    log.activated(50, 60)
    log.added(1, "law@12345678", manager)
    assert log.drain() == (LoadSpan("law", "activate", 50, 60, False, 0),)


def test_an_adapter_that_is_in_its_slot_already_leaves_no_trace() -> None:
    log = LoraLog()
    log.on_change = lambda: (_ for _ in ()).throw(AssertionError("nothing changed"))
    log.added(1, "law@12345678", Manager())
    assert log.drain() == ()


def test_a_load_that_failed_took_time_until_it_failed() -> None:
    log = LoraLog(clock=lambda: 99)
    log.reading(10, 0)
    log.added(1, "law@12345678", Manager())
    assert log.drain() == (LoadSpan("law", "read", 10, 99, False, 0),)


def test_an_evicted_adapter_leaves_host_and_slot() -> None:
    log, manager = LoraLog(), Manager()
    log.activated(1, 2)
    manager.host, manager.lora_index_to_id = {1}, [1, None]
    log.added(1, "law@12345678", manager)
    manager.host, manager.lora_index_to_id = set(), [None, None]
    log.moved(manager)
    assert (log.slots, log.host) == ((), {})


def test_the_label_is_the_name_in_the_catalog() -> None:
    assert label("law@12345678") == label("law") == "law"
