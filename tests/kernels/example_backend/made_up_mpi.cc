// A libmpi.so.40 that has nothing but a version, or, told so, not even that.
#include <cstdio>
#include <cstdlib>

extern "C" int MPI_Get_library_version(char* version, int* length) {
    if (std::getenv("MADE_UP_MPI_FAILS") != nullptr) return 16;
    *length = std::sprintf(version, "Made-up MPI\t4.2, package: of the tests\nand a second line");
    return 0;
}
