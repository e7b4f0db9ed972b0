// What `dlrun shard-host` runs, alone, so that the test needs no other part of the program.
#include "ps/shard/shard_host_main.h"

int main(int argc, char** argv) { return dlrun::ps::shard_host_main(argc, argv); }
