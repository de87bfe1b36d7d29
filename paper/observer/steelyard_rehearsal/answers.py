"""What is answered for kernels and files that are not there. Each says so."""

from . import engines, observer, values
from .imports import when_imported


def answer(torch):
    weights(torch)
    attention(torch)
    convolutions(torch)
    _files(torch)
    when_imported("deepspeed", engines.of_deepspeed)
    when_imported("megatron.core.transformer.torch_norm", engines.of_megatron)
    when_imported("megatron.training.training", engines.of_megatron_loop)
    when_imported("safetensors.torch", _safetensors)


def weights(torch):
    """Values count for nothing on paper: weights are drawn nowhere, so that a large model's pages on the host are never touched."""
    for name in ("normal_", "uniform_", "trunc_normal_", "kaiming_uniform_", "xavier_uniform_", "xavier_normal_", "kaiming_normal_",
                 "orthogonal_"):
        setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)


def attention(torch):
    """cuDNN is not there on paper: whoever asks for its attention gets the next kernel of PyTorch's list, flash attention, which keeps
    the same tensors."""
    allow = torch._C._set_sdp_use_cudnn
    torch._C._set_sdp_use_cudnn = lambda wanted: allow(False)
    allow(False)


def convolutions(torch):
    """So is cuDNN's convolution: PyTorch's own, which unfolds its input, is larger while it runs."""
    torch._C._set_cudnn_enabled(False)
    real = torch.nn.modules.conv._ConvNd.__init__

    def made(self, *words, **named):
        values.substituted("a convolution: PyTorch's own kernel instead of cuDNN's, whose workspace is unknown", 2)
        real(self, *words, **named)

    torch.nn.modules.conv._ConvNd.__init__ = made


def _files(torch):
    """What a script saves is not written: the peak of saving is seen, the user's files stay as they are."""
    def save(*_, **__):
        if observer.watching is not None:
            observer.watching.saves()

    torch.save = save
    torch.serialization.save = save
    when_imported("torch.distributed.checkpoint", lambda module: [
        setattr(module, name, save) for name in ("save", "async_save", "save_state_dict") if hasattr(module, name)])


def _safetensors(module):
    def save(*_, **__):
        if observer.watching is not None:
            observer.watching.saves()

    module.save_file = save
    module.save_model = save
