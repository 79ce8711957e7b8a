# A GPU by its data sheet: 14 TFLOP/s of floats, 900 GB/s, 5 us to launch a kernel. Its libraries take tensors by strides.
version: 1
device: "a GPU of 14 TFLOP/s, by its data sheet"
operations_per_second: 1.4e13
bytes_per_second: 9e11
call_seconds: 5e-6
strided_reads: WINDOWS
