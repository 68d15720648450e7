#!/usr/bin/env python3
"""Exports an architecture of transformers with its default sizes and random weights as ONNX; graphs.py runs it in the chroot.

    export_graph.py NAME OUT.onnx

All dims are fixed. OUT.onnx is written by torch.onnx.export (TorchScript, opset 18). NAME is one of GRAPHS."""
import sys
import warnings

# name: class of the model, what its configuration changes, name and dims of its input
GRAPHS = {
    "resnet-50": ("ResNetModel", {}, "pixel_values", [1, 3, 224, 224]),
    "convnext-tiny": ("ConvNextModel", {}, "pixel_values", [1, 3, 224, 224]),
    "vit-base": ("ViTModel", {}, "pixel_values", [1, 3, 224, 224]),
    "swin-tiny": ("SwinModel", {}, "pixel_values", [1, 3, 224, 224]),
    "segformer-b0": ("SegformerForSemanticSegmentation", {}, "pixel_values", [1, 3, 256, 256]),
    "mobilevit-small": ("MobileViTModel", {}, "pixel_values", [1, 3, 256, 256]),
    "wav2vec2-base": ("Wav2Vec2Model", {}, "input_values", [1, 32000]),
    "deberta-v3-base-6": ("DebertaV2Model", dict(
        hidden_size=768, num_hidden_layers=6, num_attention_heads=12, intermediate_size=3072, vocab_size=3000,
        relative_attention=True, position_biased_input=False, pos_att_type=["p2c", "c2p"], max_relative_positions=-1,
        position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True, type_vocab_size=0), "input_ids", [1, 256]),
}


def export(name: str, path: str) -> None:
    # graphs.py, which needs the names only, runs where these are not installed.
    import torch
    import transformers

    class Outputs(torch.nn.Module):
        """The float results of a model, as a tuple."""

        def __init__(self, model) -> None:
            super().__init__()
            self.model = model

        def forward(self, x):
            results = self.model(**{input_name: x}, return_dict=True).to_tuple()
            return tuple(r for r in results if torch.is_tensor(r) and r.is_floating_point())

    torch.manual_seed(0)
    class_name, changes, input_name, dims = GRAPHS[name]
    model_class = getattr(transformers, class_name)
    configuration = model_class.config_class(**changes)
    configuration._attn_implementation = "eager"
    x = torch.randint(5, 2999, dims) if input_name == "input_ids" else torch.randn(dims)
    torch.onnx.export(Outputs(model_class(configuration).eval()), (x,), path, input_names=[input_name], opset_version=18, dynamo=False)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    export(*sys.argv[1:])
