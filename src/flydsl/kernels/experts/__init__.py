"""A mixture of experts: tokens to their experts' rows and back, and the layer from them."""
