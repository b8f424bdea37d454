// Opens whichever MPI is installed and tells the implementations apart by their symbols.
#include "kernels/mpi/mpi_library.h"

#include <algorithm>
#include <array>

#include "kernels/shared_library.h"

namespace nvllm::mpi {
namespace {

// The largest MPI_MAX_LIBRARY_VERSION_STRING of the implementations.
constexpr size_t kMaxVersionBytes = 8192;

// Values of MPICH's ABI, which Intel's MPI and others share.
constexpr Handle kMpichWorld = 0x44000000;
constexpr Handle kMpichByte = 0x4c00010d;

// The name and number: "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\nMPICH Release
// date: ..." go on.
std::string beginning(std::string text) {
    text.resize(std::min(text.size(), text.find_first_of(",\n")));
    std::ranges::replace(text, '\t', ' ');
    return text;
}

CollectivesLibrary ask_version(const SharedLibrary& library) {
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

// Open MPI's handles are the addresses of its objects.
void find_handles(const SharedLibrary& opened, Library& library) {
    const auto* const world = opened.find<char>("ompi_mpi_comm_world");
    const auto* const byte = opened.find<char>("ompi_mpi_byte");
    if (world != nullptr && byte != nullptr) {
        library.world = reinterpret_cast<Handle>(world);
        library.byte = reinterpret_cast<Handle>(byte);
        return;
    }
    if (opened.file.starts_with("libmpi_abi")) {
        library.fault = opened.file + " has handles that this module does not know";
        return;
    }
    library.world = kMpichWorld;
    library.byte = kMpichByte;
    library.ignored_status = reinterpret_cast<void*>(Handle{1});
}

template <typename Function>
void find(const SharedLibrary& opened, const char* name, Function*& function, Library& library) {
    function = opened.find<Function>(name);
    if (function == nullptr) library.fault = opened.file + " lacks " + name;
}

void find_functions(const SharedLibrary& opened, Library& library) {
    find(opened, "MPI_Initialized", library.initialized, library);
    find(opened, "MPI_Finalized", library.finalized, library);
    find(opened, "MPI_Init_thread", library.init_thread, library);
    find(opened, "MPI_Finalize", library.finalize, library);
    find(opened, "MPI_Comm_rank", library.comm_rank, library);
    find(opened, "MPI_Comm_size", library.comm_size, library);
    find(opened, "MPI_Send", library.send, library);
    find(opened, "MPI_Recv", library.receive, library);
    find(opened, "MPI_Sendrecv", library.exchange, library);
}

Library open() {
    // Open MPI, the ABI of MPICH (Intel's too), Debian's MPICH, MPI 5's own ABI.
    const SharedLibrary opened =
        open_first_library({"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.0"});
    Library library;
    library.info = ask_version(opened);
    library.fault = library.info.fault;
    if (!library.fault.empty()) return library;
    find_functions(opened, library);
    if (library.fault.empty()) find_handles(opened, library);
    return library;
}

}  // namespace

const Library& library() {
    static const Library opened = open();
    return opened;
}

}  // namespace nvllm::mpi
