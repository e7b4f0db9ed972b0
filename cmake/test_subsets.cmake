# Which tests the builds besides dev have.

# TSan: our own code, threads and all, on in-process transports and shared memory. Nothing here runs a CAF actor system or a ZeroMQ
# socket: TSan reports races inside those libraries that are none. In it: the cores; rings and feeder; links in shared memory; the
# client and the shard's loop; the nodes of a ps-lite program; both ends of the task socket; the log store; the join service and its listener. Not in it, for they
# cannot run without CAF or ZeroMQ: the actors, the shipping of logs, the training loop; nor the REST server, most of whose code is
# Asio's.
set(DLRUN_SUBSET_tsan
  base_test os_test scheduler_core_test cluster_core_test io_core_test ps_core_test device_test io_pipe_test io_feeder_test ps_sim_test
  ps_threads_test transport_threads_test pslite_threads_test task_test log_store_test security_test)

set(DLRUN_SUBSET_cuda device_test)

# The fuzz preset has the programs of dlrun_fuzz() and none of the tests.
set(DLRUN_SUBSET_fuzz "")
