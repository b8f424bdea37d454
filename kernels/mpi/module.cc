// The module libnanovllm_mpi.so: opens whichever MPI is installed.
//
// It is compiled without MPI's headers, whose handles differ between implementations; what it calls
// is the same in all of them.
#include <algorithm>
#include <array>

#include "kernels/collectives.h"
#include "kernels/shared_library.h"

namespace nvllm::mpi {
namespace {

// MPI_MAX_LIBRARY_VERSION_STRING of those who have most.
constexpr size_t kMaxVersionBytes = 8192;

// "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\nMPICH Release date: ..." say much
// more than who they are.
std::string beginning(std::string text) {
    text.resize(std::min(text.size(), text.find_first_of(",\n")));
    std::ranges::replace(text, '\t', ' ');
    return text;
}

CollectivesLibrary look() {
    // Open MPI, the ABI of MPICH (Intel's too), Debian's MPICH, MPI 5's own ABI.
    const SharedLibrary library =
        open_first_library({"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.0"});
    CollectivesLibrary found{"MPI", "", library.file, library.fault};
    if (library.handle == nullptr) return found;
    const auto version = library.find<int(char*, int*)>("MPI_Get_library_version");
    std::array<char, kMaxVersionBytes> text{};
    int length = 0;
    if (version == nullptr || version(text.data(), &length) != 0) {
        found.fault = library.file + " does not say its version (MPI_Get_library_version)";
        return found;
    }
    found.version = beginning(text.data());
    return found;
}

}  // namespace
}  // namespace nvllm::mpi

NVLLM_COLLECTIVES_ENTRY() {
    static const nvllm::CollectivesTable table{.name = "mpi", .look = nvllm::mpi::look};
    return &table;
}
