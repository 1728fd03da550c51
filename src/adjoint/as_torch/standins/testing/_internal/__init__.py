"""What torch's own tests are written with, and those of libraries around it: cases, parameters, devices and types."""
