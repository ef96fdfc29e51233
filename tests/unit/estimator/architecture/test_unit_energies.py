"""The table of unit energies against the figures that it was taken from."""

import pytest

from joulelab.core.cost import PIPES
from joulelab.errors import UnknownNameError
from joulelab.estimator.architecture.common import figures, sram_byte_j, unit_j


def test_every_unit_energy_has_a_source_and_grows_with_the_node():
    assert figures()
    for name, figure in figures().items():
        assert figure.source
        assert 0 < figure.value[1] <= figure.value[0], name


@pytest.mark.parametrize(("node_nm", "pj"), [(45, 3.7 + 0.9), (7, 1.31 + 0.38)])
def test_an_fp32_multiply_add_is_the_published_multiplication_and_addition(node_nm, pj):
    assert unit_j("multiply_add.fp32", node_nm) == pytest.approx(pj * 1e-12)


def test_every_pipe_has_a_unit_energy():
    assert all(unit_j(f"multiply_add.{pipe}", 5.0) > 0 for pipe in PIPES)


def test_halfway_between_the_nodes_energy_is_the_geometric_mean():
    middle_nm = (45.0 * 7.0) ** 0.5

    energy_j = unit_j("multiply_add.tensor_int8", middle_nm)

    assert energy_j == pytest.approx((0.3e-12 * 0.1e-12) ** 0.5)


@pytest.mark.parametrize(
    ("size_b", "node_nm", "word_pj"),
    [(8192, 45, 10), (32768, 45, 20), (1048576, 45, 100), (8192, 7, 7.5), (1048576, 7, 14)],
)
def test_a_byte_of_sram_is_an_eighth_of_the_published_word(size_b, node_nm, word_pj):
    assert sram_byte_j(size_b, node_nm) == pytest.approx(word_pj / 8 * 1e-12)


def test_larger_memories_take_more_energy_per_byte_beyond_the_table_as_well():
    sizes_b = [1e3, 8192, 2e4, 1e5, 1e6, 1e8]

    energies_j = [sram_byte_j(size_b, 7.0) for size_b in sizes_b]

    assert energies_j == sorted(energies_j)


def test_an_unknown_unit_energy_names_the_closest():
    with pytest.raises(UnknownNameError, match=r"Did you mean .*'multiply_add\.fp32'"):
        unit_j("multiply_add.fp23", 7.0)
