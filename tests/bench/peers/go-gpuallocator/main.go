// SPDX-License-Identifier: Apache-2.0

// Times the best-effort policy of NVIDIA's go-gpuallocator on a matrix of pair weights.
//
//	peer MATRIX K...
//
// MATRIX is a file with one line of whole numbers a GPU. Prints one measure a K (see ../../loss.sh): the time
// of one call with every GPU free, the least of as many calls as fit in a second, but at least one; and what
// the chosen GPUs are worth.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/NVIDIA/go-gpuallocator/gpuallocator"
)

// The policy knows kinds of links, not weights. Their numbers are in a package that only the module itself may
// import, so they stand here: a path between sockets, and one direct link.
const (
	crossCPU   = 1
	directLink = 7
)

func readMatrix(path string) ([][]int, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	var matrix [][]int
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var row []int
		for _, field := range strings.Fields(lines.Text()) {
			weight, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			row = append(row, weight)
		}
		matrix = append(matrix, row)
	}
	for i, row := range matrix {
		if len(row) != len(matrix) {
			return nil, fmt.Errorf("%s: row %d has %d of %d weights", path, i, len(row), len(matrix))
		}
	}
	return matrix, nil
}

// Every pair has its PCIe path; pairs of the higher weight have a direct link beside it.
func devicesOf(matrix [][]int) []*gpuallocator.Device {
	var devices []*gpuallocator.Device
	far := 0
	for i, row := range matrix {
		device := &gpuallocator.Device{Index: i, Links: map[int][]gpuallocator.P2PLink{}}
		device.UUID = fmt.Sprintf("GPU-%d", i)
		devices = append(devices, device)
		for j, weight := range row {
			if i != j && (far == 0 || weight < far) {
				far = weight
			}
		}
	}
	for i, row := range matrix {
		for j, weight := range row {
			if i == j {
				continue
			}
			links := []gpuallocator.P2PLink{{GPU: devices[j], Type: crossCPU}}
			if weight > far {
				links = append(links, gpuallocator.P2PLink{GPU: devices[j], Type: directLink})
			}
			devices[i].Links[j] = links
		}
	}
	return devices
}

func sumOf(matrix [][]int, chosen []*gpuallocator.Device) int {
	sum := 0
	for i, a := range chosen {
		for _, b := range chosen[:i] {
			sum += matrix[a.Index][b.Index]
		}
	}
	return sum
}

func run() error {
	if len(os.Args) < 3 {
		return fmt.Errorf("usage: peer MATRIX K...")
	}
	matrix, err := readMatrix(os.Args[1])
	if err != nil {
		return err
	}
	devices := devicesOf(matrix)
	policy := gpuallocator.NewBestEffortPolicy()
	for _, arg := range os.Args[2:] {
		k, err := strconv.Atoi(arg)
		if err != nil || k < 1 || k > len(devices) {
			return fmt.Errorf("cannot choose %q of %d", arg, len(devices))
		}
		var chosen []*gpuallocator.Device
		least := time.Duration(0)
		for start := time.Now(); least == 0 || time.Since(start) < time.Second; {
			before := time.Now()
			chosen = policy.Allocate(devices, nil, k)
			if took := time.Since(before); least == 0 || took < least {
				least = took
			}
		}
		if len(chosen) != k {
			return fmt.Errorf("%d GPUs chosen instead of %d", len(chosen), k)
		}
		fmt.Printf("go-gpuallocator %d of %d, all free\t%.2f\tus\t-\n", k, len(devices),
			float64(least.Nanoseconds())/1e3)
		fmt.Printf("go-gpuallocator %d of %d, sum of weights of its choice\t%d\t\t-\n", k, len(devices),
			sumOf(matrix, chosen))
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "go-gpuallocator peer:", err)
		os.Exit(2)
	}
}
