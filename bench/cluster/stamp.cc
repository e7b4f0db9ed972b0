// bench_stamp PATH [SECONDS]: writes CLOCK_MONOTONIC at the start of main() to PATH as 8 bytes,
// waits if told, and ends well.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

int main(int argc, char** argv) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  if (argc < 2) return 2;
  const int fd = open(argv[1], O_WRONLY);
  if (fd < 0 || write(fd, &ns, sizeof ns) != sizeof ns) return 1;
  if (argc > 2) sleep(static_cast<unsigned>(std::atoi(argv[2])));
  return 0;
}
