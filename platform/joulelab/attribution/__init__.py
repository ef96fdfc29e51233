"""Where inside a network the joules go: by component, layer, operator and kernel.

A program is metered as a whole; its calls are profiled; each distinct kernel is priced; and the
parts are reconciled with the meter. What they leave over is shown, never spread over them.
"""
