# SPDX-License-Identifier: Apache-2.0
# For the client alone, which release/client builds: GPUTOPO_MUSL names the compiler with musl's headers and libraries,
# GPUTOPO_LIBRARIES the directory with the static libraries that it made.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER $ENV{GPUTOPO_MUSL})
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
set(CMAKE_FIND_ROOT_PATH $ENV{GPUTOPO_LIBRARIES})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
