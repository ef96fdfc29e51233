"""How hosts and kernels behave, as simulated and predicted devices have it."""

OVERHEAD_SHARE = 0.35
"""Share of the units that is busy while a kernel fills and drains the device (H200 GEMM 1024:
29 % active where 18 % computes)."""

HOST_CALL_SHARE = 0.03
"""Time of a call in Python over that of launching a kernel from Python: small Llama, BERT and Bloom
networks take 0.4 to 0.5 us for each of their calls on a core of an AMD EPYC besides what their
operators take, and a launch takes 15.2 us on the host of the H200's micro-benchmarks. Another host
than that; the share is good to about a third."""

LOOP_LAUNCH_SHARE = 0.71
"""Time of launching one and the same kernel again and again over that of launching it among others,
where Python lies in between: single operators and chains of modules on the host of the H200's
micro-benchmarks (experiments/results/h200_anchors)."""

SCALED_PRODUCT_LAUNCHES = 1.75
"""Launches of a product that one of fp8 takes: cuBLASLt is asked for its best kernel each time.

H200, n = 1024, one after the other: 20.7 us against 10.4 us in bf16, where a product takes 11.8 us
on average over how it is called."""

EAGER_GAP_S = 1.0e-6
"""Time between kernels that a full queue hands over, beyond that between kernels of a graph (H200,
fp32 GEMM 1024: 56.4 us in a queue, 55.4 us in a graph)."""

STEP_S = 4e-7
"""Time of a step of a sum whose threads wait for each load: some 600 cycles until the memory
answers, and the update of a mean and a variance. Estimated; an H200 decodes an image of Stable
Diffusion in bf16 in 22 ms at 390 W, of which 28 000 such steps take a half."""

PLAIN_CONVOLUTION_SHARE = 0.76
"""Rate of convolutions on plain units over that on matrix units, each over that of a product: fp32
without TF32 on an H200, ResNet-50 at batch 64."""
