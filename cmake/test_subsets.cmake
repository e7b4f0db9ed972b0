# Which tests the builds besides dev have.

# TSan: our own code, threads and all, on in-process transports. Nothing here runs a CAF actor system or a ZeroMQ socket: TSan
# reports races inside those libraries that are none.
set(DLRUN_SUBSET_tsan
  base_test scheduler_core_test device_test io_pipe_test io_feeder_test ps_sim_test ps_threads_test)

set(DLRUN_SUBSET_cuda device_test)

# The fuzz preset has the programs of dlrun_fuzz() and none of the tests.
set(DLRUN_SUBSET_fuzz "")
