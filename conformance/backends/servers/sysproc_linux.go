package servers

import "syscall"

// sysProcAttr puts the child in a process group of its own, and has it end with this process.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
