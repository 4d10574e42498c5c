// Catch2 2.13 compiles its main() here, where no library has it (Debian and version 3 bring one).
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
