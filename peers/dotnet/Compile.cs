// A C# compiler's command line over the compiler's library, for the fixtures of the .NET tests. The packages have a new
// compiler only as a library, and an old one as a program, which compiles this.

using System;
using System.IO;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Emit;
using Microsoft.CodeAnalysis.Text;

static class Compile
{
    static int Main(string[] arguments)
    {
        var command = CSharpCommandLineParser.Default.Parse(arguments, Directory.GetCurrentDirectory(), null);
        if (command.Errors.Any(error => error.Severity == DiagnosticSeverity.Error))
        {
            foreach (var error in command.Errors) Console.Error.WriteLine(error);
            return 2;
        }

        SourceText Read(string path)
        {
            using (var file = File.OpenRead(path))
                return SourceText.From(file, command.Encoding, command.ChecksumAlgorithm, canBeEmbedded: true);
        }

        var trees = command.SourceFiles
            .Select(file => CSharpSyntaxTree.ParseText(Read(file.Path), command.ParseOptions, file.Path));
        var references = command.MetadataReferences
            .Select(reference => MetadataReference.CreateFromFile(reference.Reference, reference.Properties));
        var compilation =
            CSharpCompilation.Create(command.CompilationName, trees, references, command.CompilationOptions);
        var sources = command.EmbeddedFiles.Select(file => EmbeddedText.FromSource(file.Path, Read(file.Path)));

        var dll = Path.Combine(command.OutputDirectory, command.OutputFileName);
        var pdb = Path.ChangeExtension(dll, ".pdb");
        var separate = command.EmitPdb
            && command.EmitOptions.DebugInformationFormat == DebugInformationFormat.PortablePdb;
        // Without its folder: the program may be moved.
        var options = command.EmitOptions.WithPdbFilePath(Path.GetFileName(pdb));
        using (var image = File.Create(dll))
        using (var symbols = separate ? File.Create(pdb) : null)
        {
            var result = compilation.Emit(image, symbols, options: options, embeddedTexts: sources);
            foreach (var diagnostic in result.Diagnostics.Where(one => one.Severity >= DiagnosticSeverity.Warning))
                Console.Error.WriteLine(diagnostic);
            return result.Success ? 0 : 1;
        }
    }
}
