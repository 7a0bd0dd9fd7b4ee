"""What makes the hidden layer: values and derivatives."""
