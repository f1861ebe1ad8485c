"""How much memory is free, as Linux says of machines and control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from indus_nb.base.free_memory import free_memory

MB = 1 << 20


class Machine:
    """The files that say it."""

    def __init__(self, root: Path, available: int) -> None:
        self.root = root
        self.write("proc/meminfo", f"MemTotal: 1 kB\nMemAvailable: {available >> 10} kB\n")

    def write(self, path: str, text: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def group(self, path: str, limit: int | str, used: int, given_up: int = 0) -> None:
        """A group of version 2."""
        for name, value in (
            ("max", limit),
            ("current", used),
            ("stat", f"anon 1\ninactive_file {given_up}\n"),
        ):
            self.write(f"sys/fs/cgroup/{path}memory.{name}", f"{value}\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, 1000 * MB)


def test_a_machine_without_groups_has_what_it_says(machine: Machine) -> None:
    assert free_memory(machine.root) == 1000 * MB


def test_a_container_has_what_its_limit_leaves_with_files_that_nobody_used_lately(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/\n")
    machine.group("", 500 * MB, 400 * MB, 50 * MB)
    assert free_memory(machine.root) == 150 * MB


def test_of_groups_above_each_other_the_least_counts(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/user/kernel\n")
    machine.group("user/", 300 * MB, 200 * MB)
    machine.group("user/kernel/", "max", 150 * MB)
    assert free_memory(machine.root) == 100 * MB


def test_a_group_that_took_more_than_its_limit_leaves_nothing(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/\n")
    machine.group("", 100 * MB, 101 * MB)
    assert free_memory(machine.root) == 0


@pytest.mark.parametrize("place", ["", "docker/abc/"])
def test_groups_of_version_1_count_where_they_are_mounted(machine: Machine, place: str) -> None:
    machine.write("proc/self/cgroup", "9:pids:/x\n4:memory:/docker/abc\n0::/\n")
    at = f"sys/fs/cgroup/memory/{place}memory."
    machine.write(f"{at}limit_in_bytes", f"{400 * MB}\n")
    machine.write(f"{at}usage_in_bytes", f"{300 * MB}\n")
    machine.write(f"{at}stat", f"inactive_file 1\ntotal_inactive_file {20 * MB}\n")
    assert free_memory(machine.root) == 120 * MB


def test_this_machine_has_memory() -> None:
    assert free_memory() > 0
