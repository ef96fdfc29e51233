"""What tests ask the processes of ranks, which import it from here."""


def logits_of(workload):
    """Return what a prepared language model answers to a prompt, as an array."""
    import torch

    tokens = torch.arange(16).reshape(2, 8)
    with torch.no_grad():
        return workload.prepared_network(input_ids=tokens).logits.numpy()
