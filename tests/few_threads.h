// While it lives, the system lets this process start only so many more threads.
#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace nvllm::test {

// Stacks of a gigabyte each, in an address space that has room for `count` of them.
class FewThreads {
  public:
    explicit FewThreads(uint64_t count) {
        ::pthread_getattr_default_np(&before_);
        pthread_attr_t large;
        ::pthread_getattr_default_np(&large);
        ::pthread_attr_setstacksize(&large, kStackBytes);
        ::pthread_setattr_default_np(&large);
        ::pthread_attr_destroy(&large);
        ::getrlimit(RLIMIT_AS, &limit_before_);
        rlimit limit = limit_before_;
        limit.rlim_cur = used_bytes() + count * kStackBytes + kStackBytes / 2;
        ::setrlimit(RLIMIT_AS, &limit);
    }
    ~FewThreads() {
        ::setrlimit(RLIMIT_AS, &limit_before_);
        ::pthread_setattr_default_np(&before_);
        ::pthread_attr_destroy(&before_);
    }
    FewThreads(const FewThreads&) = delete;
    FewThreads& operator=(const FewThreads&) = delete;

  private:
    static constexpr uint64_t kStackBytes = uint64_t{1} << 30;

    static uint64_t used_bytes() {
        std::ifstream file("/proc/self/statm");
        uint64_t pages = 0;
        file >> pages;
        return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    }

    pthread_attr_t before_{};
    rlimit limit_before_{};
};

}  // namespace nvllm::test
