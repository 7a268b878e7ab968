"""The public names of `ws.nn.models`."""

from wholestep.nn.models.bert import BERT as BERT, DistilBERT as DistilBERT
from wholestep.nn.models.convnext import ConvNeXt as ConvNeXt
from wholestep.nn.models.gpt2 import GPT2 as GPT2
from wholestep.nn.models.llama import Llama as Llama
from wholestep.nn.models.mixer import MLPMixer as MLPMixer
from wholestep.nn.models.mobilenet import MobileNetV3 as MobileNetV3
from wholestep.nn.models.resnet import ResNet as ResNet
from wholestep.nn.models.vit import ViT as ViT
from wholestep.nn.models.whisper import WhisperEncoder as WhisperEncoder
