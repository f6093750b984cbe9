// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins the controller of AppWrappers for the end-to-end suite, which builds it from this module.
package tools

import (
	_ "github.com/project-codeflare/appwrapper/cmd"
)
