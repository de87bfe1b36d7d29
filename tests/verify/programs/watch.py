"""What of a model's parameters is on this rank, and whether two steps of a Trainer moved it."""

from transformers import TrainerCallback


def shards(model):
    for parameter in model.parameters():
        parameter = getattr(parameter, "ds_tensor", parameter)
        yield (parameter.to_local() if hasattr(parameter, "to_local") else parameter).detach().float().clone()


class Watch(TrainerCallback):
    before, moved, steps, kinds = None, False, 0, ""

    def on_step_begin(self, arguments, state, control, model=None, **_):
        if state.global_step == 0:
            self.before = list(shards(model))

    def on_step_end(self, arguments, state, control, model=None, **_):
        self.steps = state.global_step
        self.kinds = ",".join(kind.__name__ for kind in type(model).__mro__)
        self.moved = any((old != new).any() for old, new in zip(self.before, shards(model)) if old.shape == new.shape)
