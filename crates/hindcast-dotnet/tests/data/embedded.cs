// Compiled into embedded.dll with its PDB and this text inside; see README.md.
using System;

public static class Embedded
{
    // The compiler compresses a text only if that makes it smaller, so this one says the same thing more than once: the compiler
    // compresses a text only if that makes it smaller, so this one says the same thing more than once.
    public static int Twice(int value)
    {
        return value * 2; // @mark twice
    }

    public static void Main()
    {
        Console.WriteLine(Twice(21)); // @mark call
    }
}
