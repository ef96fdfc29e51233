"""What the operators of a traced program say, against closed forms."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from joulelab.errors import ConfigError
from joulelab.tracing.program import MatrixShape
from joulelab.tracing.trace import fake_network, fake_tensors, trace, trace_program


def operators_of(step, **options):
    return trace_program(step, **options).operators


def only(operators):
    assert len(operators) == 1, operators
    return operators[0]


def multiplications(shape):
    return shape.batch * shape.m * shape.n * shape.k


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.inner(x) + x)


def test_an_operator_is_named_after_the_innermost_module_that_calls_it():
    with fake_tensors():
        network = fake_network(Block)
        operators = operators_of(lambda: network(torch.empty(3, 8)), network=network)

    assert [(each.name, each.module) for each in operators] == [
        ("addmm", "inner.0"),
        ("relu", "inner.1"),
        ("add", ""),
        ("addmm", "last"),
    ]


def test_a_gradient_is_computed_in_the_module_whose_operator_it_differentiates():
    with fake_tensors():
        network = fake_network(Block)
        x = torch.empty(3, 8)
        operators = operators_of(
            lambda: network(x).sum().backward(), network=network, gradients=True
        )

    backward = [(each.name, each.module) for each in operators if each.stage == "backward"]
    assert backward == [
        ("mm", "last"),
        ("mm", "last"),
        ("sum", "last"),
        ("threshold_backward", "inner.1"),
        ("mm", "inner.0"),
        ("sum", "inner.0"),
    ]


def test_recomputed_activations_belong_to_the_modules_that_recompute_them():
    with fake_tensors():
        network = fake_network(Block)
        x = torch.empty(3, 8, requires_grad=True)

        def step():
            recomputed = torch.utils.checkpoint.checkpoint(network.inner, x, use_reentrant=False)
            recomputed.sum().backward()

        operators = operators_of(step, network=network, gradients=True)

    again = [each for each in operators if each.name == "addmm"]
    assert [(each.stage, each.module) for each in again] == [
        ("forward", "inner.0"),
        ("backward", "inner.0"),
    ]


def test_a_module_outside_of_the_network_is_called_by_its_class():
    with fake_tensors():
        block = fake_network(Block)
        operators = operators_of(lambda: block(torch.empty(3, 8)))

    assert [each.module for each in operators] == [
        "Block.inner.0",
        "Block.inner.1",
        "Block",
        "Block.last",
    ]


def test_parameters_are_weights_and_everything_else_is_read():
    with fake_tensors():
        network = fake_network(lambda: nn.Linear(8, 4))
        x = torch.empty(3, 8)
        program = trace_program(lambda: network(x), network=network, inputs=x)

    product = only(program.operators)
    assert (product.weight_b, product.read_b, product.written_b) == (
        4 * (8 * 4 + 4),
        4 * 3 * 8,
        4 * 3 * 4,
    )
    assert product.inputs_b == (product.read_b,)
    assert product.outputs_b == (product.written_b,)
    assert (program.parameter_b, program.input_b) == (product.weight_b, product.read_b)


def test_an_embedding_reads_only_the_rows_that_it_picks_of_its_weight():
    with fake_tensors():
        network = fake_network(lambda: nn.Embedding(1000, 16))
        tokens = torch.empty(5, dtype=torch.long)
        lookup = only(operators_of(lambda: network(tokens), network=network))

    assert (lookup.weight_b, lookup.read_b, lookup.written_b) == (5 * 16 * 4, 5 * 8, 5 * 16 * 4)
    assert lookup.flop == 0


def test_undeclared_tensors_from_outside_count_as_inputs_once():
    with fake_tensors():
        x = torch.empty(100)
        program = trace_program(lambda: (x + 1) * x)

    assert program.input_b == 400


def test_views_of_a_tensor_are_one_value():
    with fake_tensors():
        x = torch.empty(6, 4)

        def step():
            made = x + 1
            query, key, value = made.split(2)
            return query * key + value.t().reshape(2, 4)

        made, product, _, total = operators_of(step)

    assert product.inputs == made.outputs
    assert made.outputs[0] not in total.inputs  # reshape copied it
    assert product.outputs[0] in total.inputs
    assert product.read_b == sum(product.inputs_b) == 2 * 2 * 4 * 4


def test_every_write_makes_a_new_value():
    with fake_tensors():
        x = torch.empty(10)

        def step():
            made = x + 1
            made.relu_()
            return made * 2

        add, relu, double = operators_of(step)

    assert relu.inputs == add.outputs
    assert double.inputs == relu.outputs
    assert len({*add.inputs, *add.outputs, *relu.outputs, *double.outputs}) == 4


def test_a_write_into_a_part_keeps_the_rest_without_reading_it():
    with fake_tensors():
        x = torch.empty(4)

        def step():
            row = x + 1
            cache = torch.zeros(8, 4)
            cache[3] = row
            return cache * 2

        row, zeros, part, double = operators_of(step)

    assert dict(zip(part.inputs, part.inputs_b, strict=True)) == {
        row.outputs[0]: 16,
        zeros.outputs[0]: 0,
    }
    assert (part.read_b, part.written_b) == (16, 16)
    assert double.inputs == part.outputs


def test_overwriting_all_of_a_tensor_forgets_its_old_value():
    with fake_tensors():
        x = torch.empty(4)

        def step():
            made = x + 1
            made.copy_(x)

        add, copy = operators_of(step)

    assert copy.inputs == add.inputs
    assert add.outputs[0] not in copy.inputs


def test_each_result_of_an_operator_is_a_value_of_its_own():
    with fake_tensors():
        x = torch.empty(4, 6)

        largest = only(operators_of(lambda: torch.max(x, dim=1)))

    assert len(set(largest.outputs)) == 2
    assert largest.outputs_b == (4 * 4, 4 * 8)


@pytest.mark.parametrize(
    ("step", "shape"),
    [
        (lambda: torch.empty(3, 5) @ torch.empty(5, 7), (1, 3, 7, 5)),
        (lambda: torch.empty(2, 4, 3, 5) @ torch.empty(2, 4, 5, 7), (8, 3, 7, 5)),
        (lambda: torch.addmm(torch.empty(7), torch.empty(3, 5), torch.empty(5, 7)), (1, 3, 7, 5)),
        (
            lambda: torch.baddbmm(torch.empty(7), torch.empty(2, 3, 5), torch.empty(2, 5, 7)),
            (2, 3, 7, 5),
        ),
        (lambda: functional.linear(torch.empty(2, 3, 5), torch.empty(7, 5)), (1, 6, 7, 5)),
        (lambda: torch.mv(torch.empty(3, 5), torch.empty(5)), (1, 3, 1, 5)),
        (lambda: torch.dot(torch.empty(5), torch.empty(5)), (1, 1, 1, 5)),
    ],
)
def test_a_product_of_matrices_tells_its_shape(step, shape):
    with fake_tensors():
        product = only([each for each in operators_of(step) if each.kind == "gemm"])

    assert product.shape == MatrixShape(**dict(zip(("batch", "m", "n", "k"), shape, strict=True)))
    assert product.flop == 2 * multiplications(product.shape)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Conv2d(6, 8, 3, stride=2, padding=1), (1, 2 * 5 * 5, 8, 6 * 9, 9, 25)),
        (lambda: nn.Conv2d(6, 8, (3, 1), groups=2), (2, 2 * 8 * 10, 4, 3 * 3, 3, 80)),
        (lambda: nn.Conv2d(6, 6, 3, padding=1, groups=6), (6, 2 * 10 * 10, 1, 9, 9, 100)),
        (lambda: nn.Conv2d(6, 8, 3, dilation=2), (1, 2 * 6 * 6, 8, 6 * 9, 9, 36)),
        (lambda: nn.ConvTranspose2d(6, 8, 2, stride=2), (1, 2 * 10 * 10, 8 * 4, 6, 4, 100)),
        (lambda: nn.ConvTranspose2d(6, 8, 2, groups=2), (2, 2 * 10 * 10, 4 * 4, 3, 4, 100)),
    ],
)
def test_a_convolution_tells_the_shape_of_its_implicit_product(layer, shape):
    with fake_tensors():
        network = fake_network(layer)
        convolution, bias = operators_of(lambda: network(torch.empty(2, 6, 10, 10)))

    names = ("batch", "m", "n", "k", "window", "pixels")
    wanted = MatrixShape(**dict(zip(names, shape, strict=True)))
    assert (bias.name, bias.written_b) == ("add_", convolution.written_b)
    assert convolution.shape == wanted
    assert convolution.flop == 2 * multiplications(wanted)


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("needs_input_gradient", [False, True])
def test_each_gradient_of_a_convolution_costs_as_much_as_the_convolution(
    groups, needs_input_gradient
):
    with fake_tensors():
        network = fake_network(lambda: nn.Conv2d(6, 6, 3, padding=1, groups=groups))
        x = torch.empty(2, 6, 10, 10, requires_grad=needs_input_gradient)
        operators = operators_of(lambda: network(x).sum().backward(), gradients=True)

    forward, backward = (each for each in operators if each.kind == "conv")
    assert backward.flop == (1 + needs_input_gradient) * forward.flop
    assert backward.flop == 2 * multiplications(backward.shape)


def test_the_gradients_of_a_product_are_two_products_of_its_size():
    with fake_tensors():
        a, b = (torch.empty(size, requires_grad=True) for size in ((3, 5), (5, 7)))
        operators = operators_of(lambda: (a @ b).sum().backward(), gradients=True)

    assert [each.flop for each in operators if each.kind == "gemm"] == [2 * 3 * 5 * 7] * 3


@pytest.mark.parametrize("value_width", [16, 24])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_attention_and_its_gradient_are_one_kernel_each_of_two_and_five_products(
    value_width, dropout
):
    heads, queries, keys, width = 4, 8, 12, 16
    with fake_tensors():
        query, key, value = (
            torch.empty(2, heads, rows, columns, dtype=torch.bfloat16, requires_grad=True)
            for rows, columns in ((queries, width), (keys, width), (keys, value_width))
        )
        operators = operators_of(
            lambda: (
                functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
                .sum()
                .backward()
            ),
            gradients=True,
        )

    forward, backward = (each for each in operators if each.kind == "attention")
    scores = 2 * heads * queries * keys
    assert forward.shape == MatrixShape(batch=2 * heads, m=queries, n=keys, k=width)
    assert forward.flop == 2 * scores * (width + value_width)
    assert backward.flop == 2 * scores * (3 * width + 2 * value_width)
    assert not [each for each in operators if each.kind in {"gemm", "softmax"}]


@pytest.mark.parametrize("num_key_heads", [2, 4])
def test_attention_without_a_fused_kernel_has_gradients_of_four_products(num_key_heads):
    with fake_tensors():
        query = torch.empty(1, 4, 8, 16, dtype=torch.float64, requires_grad=True)
        key, value = (
            torch.empty(1, num_key_heads, 8, 16, dtype=torch.float64, requires_grad=True)
            for _ in range(2)
        )
        operators = operators_of(
            lambda: (
                functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
                .sum()
                .backward()
            ),
            gradients=True,
        )

    products = [each.flop for each in operators if each.kind == "gemm"]
    assert products == [2 * 4 * 8 * 8 * 16] * 6
    assert key.grad.shape == key.shape


def test_attention_falls_apart_where_rows_of_its_mask_are_not_side_by_side():
    def attend(query, mask):
        return functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)

    with fake_tensors():
        query = torch.empty(2, 4, 8, 16, dtype=torch.bfloat16)
        mask = torch.empty(8, 8, 4, dtype=torch.bfloat16).permute(2, 0, 1)[None]
        fused = operators_of(lambda: attend(query, mask.contiguous()))
        unfused = operators_of(lambda: attend(query, mask))

    assert [one.kind for one in fused if one.kind in ("attention", "gemm")] == ["attention"]
    products = [one for one in unfused if one.kind == "gemm"]
    assert [one.dtype for one in products] == ["float32", "float32"]
    names = [one.name for one in unfused]
    assert [names.count(name) for name in ("isneginf", "all", "where")] == [1, 1, 1]


def test_a_gpu_rolls_along_one_axis_after_the_other():
    operators = operators_of(lambda: torch.roll(torch.empty(2, 8, 8, 4), (3, 3), (1, 2)))

    assert [one.name for one in operators] == ["roll", "roll"]


def test_a_gpu_copies_what_is_strided_before_it_normalises_over_a_layer():
    values = torch.empty(2, 16, 8)
    strided = operators_of(lambda: functional.layer_norm(values.mT, (16,)))
    plain = operators_of(lambda: functional.layer_norm(values, (8,)))

    assert [one.name for one in strided] == ["clone", "native_layer_norm"]
    assert [one.name for one in plain] == ["native_layer_norm"]


def test_a_gpu_normalises_over_groups_channel_by_channel_whatever_the_layout():
    """On a CPU the result keeps the layout, so that convolutions after it seemed to need none."""
    with fake_tensors():
        image = torch.empty(2, 8, 4, 4).to(memory_format=torch.channels_last)
        weight = torch.empty(8, 8, 3, 3)
    convolve = lambda: functional.conv2d(functional.group_norm(image, 2), weight)  # noqa: E731

    found = operators_of(convolve)

    assert [one.name for one in found] == ["clone", "native_group_norm", "convolution"]
    assert found[-1].layout == "plain"


def test_a_gpu_copies_a_strided_sequence_before_it_convolves_it():
    values, weight = torch.empty(2, 16, 8), torch.empty(4, 8, 3)

    operators = operators_of(lambda: functional.conv1d(values.mT, weight))

    assert [one.name for one in operators] == ["clone", "convolution"]


def test_dropout_is_one_kernel_as_on_a_gpu():
    with fake_tensors():
        network = fake_network(nn.Dropout).train()
        x = torch.empty(100)

        dropout = only(operators_of(lambda: network(x)))

    assert (dropout.name, dropout.written_b) == ("native_dropout", 400 + 100)


@pytest.mark.parametrize("has_biases", [True, False])
@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_a_recurrent_layer_multiplies_input_and_state_with_the_weights_of_all_gates(
    kind, gates, has_biases
):
    """GRUs, plain layers and LSTMs without biases fell apart as on a CPU, 13 kernels a step."""
    with fake_tensors():
        network = fake_network(lambda: kind(8, 16, num_layers=2, bias=has_biases))
        operators = operators_of(lambda: network(torch.empty(5, 3, 8)), network=network)

    products = [each for each in operators if each.kind == "gemm"]
    assert [each.flop for each in products] == [
        2 * 5 * 3 * gates * 16 * (8 + 16),
        2 * 5 * 3 * gates * 16 * (16 + 16),
    ]
    assert {each.shape.gates for each in products} == {gates}


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_the_gradients_of_a_recurrent_layer_cost_twice_the_layer(kind):
    with fake_tensors():
        network = fake_network(lambda: kind(8, 16)).train()
        x = torch.empty(5, 3, 8)
        operators = operators_of(lambda: network(x)[0].sum().backward(), gradients=True)

    forward, backward = (each for each in operators if each.kind == "gemm")
    assert backward.flop == 2 * forward.flop
    assert all(each.grad.shape == each.shape for each in network.parameters())


def test_a_transposed_operand_is_not_contiguous_unless_a_product_takes_it():
    with fake_tensors():
        x = torch.empty(8, 8)

        whole, half, product = (
            only(operators_of(step))
            for step in (lambda: x + 1, x.t().contiguous, lambda: x @ x.t())
        )

    assert (whole.contiguous, half.contiguous, product.contiguous) == (1.0, 0.5, 1.0)


def test_every_second_element_is_not_contiguous():
    with fake_tensors():
        x = torch.empty(8, 16)

        added = only(operators_of(lambda: x[:, ::2].add_(1)))

    assert added.contiguous == 0.0


def test_channels_last_images_are_contiguous():
    with fake_tensors():
        x = torch.empty(2, 3, 8, 8).to(memory_format=torch.channels_last)

        assert only(operators_of(lambda: x + x)).contiguous == 1.0


def test_the_format_of_an_operator_is_that_of_its_floating_point_operands():
    with fake_tensors():
        tokens = torch.empty(5, dtype=torch.long)
        table = torch.empty(10, 4, dtype=torch.bfloat16)

        lookup = only(operators_of(lambda: functional.embedding(tokens, table)))
        shift = only(operators_of(lambda: tokens + 1))

    assert (lookup.dtype, shift.dtype) == ("bfloat16", "int64")


def test_matrix_work_without_a_formula_is_marked_and_counted():
    with fake_tensors():
        x = torch.empty(8, 8)
        program = trace_program(lambda: (torch.fft.rfft(x), torch.fft.rfft(x), x @ x))

    unknown = [operator.name for operator in program.operators if not operator.has_formula]
    assert unknown == ["_fft_r2c"] * 2
    assert program.flop == 2 * 8**3
    transform = program.operators[0]
    assert (transform.kind, transform.flop, transform.read_b) == ("gemm", 0.0, 256)


def test_strict_tracing_names_everything_that_cannot_be_counted():
    with fake_tensors():
        x = torch.empty(8, 8)

        with pytest.raises(ConfigError) as refused:
            trace_program(
                lambda: (torch.fft.rfft(x), torch.fft.rfft(x), torch.linalg.inv(x)), strict=True
            )

    assert "aten._fft_r2c.default has no FLOP formula, calls: 2" in str(refused.value)
    assert "aten.linalg_inv_ex.default has no FLOP formula, calls: 1" in str(refused.value)


def test_kernels_are_the_operators_of_the_program():
    with fake_tensors():
        network = fake_network(Block)
        x = torch.empty(3, 8)
        kernels = trace(lambda: network(x))
        program = trace_program(lambda: network(x), network=network)

    assert [(kernel.name, kernel.pipe, kernel.flop, kernel.dram_b) for kernel in kernels] == [
        (each.kind, each.pipe, each.flop, each.moved_b) for each in program.operators
    ]


def test_real_tensors_make_the_same_program_as_fake_ones():
    def traced(network):
        x = torch.zeros(3, 8)
        return trace_program(lambda: network(x), network=network, inputs=x)

    real = traced(Block())
    with fake_tensors():
        fake = traced(fake_network(Block))

    assert real == fake
