"""The operations that a model of real size is written in; each library has a module with its own.

Arrays are the library's. Images have the axes that `image` gives: channels first or last, as the library is quickest;
kernels are drawn as [out, in, height, width], and `prepared` converts parameters and batch for the library.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from wholestep_tools.bench.draws import Arrays


class ImageAxes(NamedTuple):
    """The axes of a batch of images: that of the channels, and those of the places."""

    channels: int
    places: tuple[int, int]


FIRST, LAST = ImageAxes(1, (2, 3)), ImageAxes(3, (1, 2))


class Operations(Protocol):
    """The operations of one library."""

    image: ImageAxes

    def prepared(self, params: Arrays, batch: Arrays) -> tuple[Any, Any]:
        """Parameters and batch as the library takes them."""

    def relu(self, x: Any) -> Any:
        """The larger of each element and 0."""

    def gelu(self, x: Any) -> Any:
        """The smooth ReLU, by its approximation with tanh."""

    def tanh(self, x: Any) -> Any:
        """The hyperbolic tangent."""

    def sigmoid(self, x: Any) -> Any:
        """The logistic function."""

    def exp(self, x: Any) -> Any:
        """The exponential."""

    def log(self, x: Any) -> Any:
        """The natural logarithm."""

    def layer_norm(self, x: Any, gain: Any, bias: Any) -> Any:
        """Zero mean and unit variance along the last axis, then a gain and a bias."""

    def batch_norm(self, x: Any, gain: Any, bias: Any) -> Any:
        """Zero mean and unit variance of each channel over a batch of images, then a gain and a bias."""

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        """Scaled dot-product attention over [batch, heads, time, width]."""

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        """The mean surprise at integer labels, over all leading axes."""

    def conv2d(self, x: Any, kernel: Any, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        """A convolution of images."""

    def causal_conv1d(self, x: Any, kernel: Any, dilation: int) -> Any:
        """A convolution of [batch, channels, time] by [out, in, taps] that looks back alone."""

    def max_pool2d(self, x: Any, size: int, stride: int, padding: int = 0) -> Any:
        """The largest element of each window of an image."""

    def upsample2d(self, x: Any) -> Any:
        """An image of twice the height and width, each place repeated."""

    def embedding(self, table: Any, ids: Any) -> Any:
        """The rows of a table."""

    def concatenate(self, parts: list[Any], axis: int) -> Any:
        """Arrays one after another."""

    def transpose(self, x: Any, *axes: int) -> Any:
        """An array of permuted axes."""

    def broadcast_to(self, x: Any, shape: tuple[int, ...]) -> Any:
        """An array repeated along axes of size 1."""

    def mean(self, x: Any, axes: tuple[int, ...]) -> Any:
        """The mean over axes."""

    def lstm(self, x: Any, wx: Any, wh: Any, bias: Any) -> Any:
        """The hidden states [batch, time, width] of an LSTM that starts from zeros; its gates: i, f, g, o."""

    def cholesky(self, x: Any) -> Any:
        """The lower factor of a positive definite matrix."""

    def solve_lower(self, lower: Any, y: Any) -> Any:
        """The solution [n, k] of a lower triangular system."""

    def diagonal(self, x: Any) -> Any:
        """The diagonal of a matrix."""
