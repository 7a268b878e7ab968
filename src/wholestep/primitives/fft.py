"""fft placeholder."""
