"""From a device's sensors to energy with an error bar."""
