// Hides AVX-512 from the programs of a benchmark: a library to preload on Linux, on processors of Intel and AMD that can
// refuse the instruction CPUID to programs (`cpuid_fault` in /proc/cpuinfo).
//
//     cc -O2 -shared -fPIC -o avx2.so benches/avx2.c
//     LD_PRELOAD=$PWD/avx2.so tokenmill --version --verbose
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static int allow_cpuid(int allowed) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, allowed); }

// Executes CPUID in place of the program, and clears the bits of AVX-512 in what it says.
static void answer(int signal_number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *instruction = (const unsigned char *)registers[REG_RIP];
    if (instruction[0] != 0x0f || instruction[1] != 0xa2) {
        signal(signal_number, SIG_DFL);
        return;
    }
    unsigned leaf = registers[REG_RAX], subleaf = registers[REG_RCX], a, b, c, d;
    allow_cpuid(1);
    __cpuid_count(leaf, subleaf, a, b, c, d);
    allow_cpuid(0);
    if (leaf == 7 && subleaf == 0) {
        // F, DQ, IFMA, PF, ER, CD, BW, VL; VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ; 4VNNIW, 4FMAPS, VP2INTERSECT, FP16.
        b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
        c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
        d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 23);
    } else if (leaf == 7 && subleaf == 1) {
        a &= ~(1u << 5); // BF16
    }
    registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void hide(void) {
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSEGV, &action, NULL) != 0 || allow_cpuid(0) != 0) {
        perror("avx2.so: AVX-512 cannot be hidden on this machine");
        _exit(1);
    }
}
