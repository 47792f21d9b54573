// Compiled into the files beside it; see README.md. `@mark` comments name lines.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Threading.Tasks;
using Text = System.Text;
using static System.Math;

[assembly: System.Runtime.Versioning.TargetFramework(".NETCoreApp,Version=v3.1", FrameworkDisplayName = "")]
[assembly: System.Reflection.AssemblyVersion("1.2.3.4")]

namespace Sample.Shapes
{
    [Flags]
    public enum Colors : byte { None = 0, Red = 1, Green = 2, All = 255 }

    public enum Big : long { Low = long.MinValue, High = long.MaxValue }

    [AttributeUsage(AttributeTargets.All, AllowMultiple = true)]
    public sealed class NoteAttribute : Attribute
    {
        public NoteAttribute(string text, int number, Colors color, Type type, object boxed, params string[] words) { }
        public NoteAttribute() { }
        public Colors Shade;
        public long Count { get; set; }
        public Type[] Types { get; set; }
        public DayOfWeek Day { get; set; }
    }

    [DebuggerDisplay("{Name,nq} of {Sides}", Name = "shape")]
    [Note("täxt", -7, Colors.Green, typeof(List<int>), Big.High, "a", null, "c", Shade = Colors.All, Count = 1L << 40,
        Types = new[] { typeof(int), typeof(Shape.Inner<>) }, Day = DayOfWeek.Friday)]
    [Note]
    public abstract class Shape : IComparable<Shape>, IDisposable
    {
        public const int Answer = 42;
        public const string Greeting = "hé\n";
        public const double Half = 0.5;
        public const char Letter = 'x';
        public const ulong Most = ulong.MaxValue;
        public const sbyte Least = -128;
        public const bool Yes = true;
        public const string Nothing = null;
        public const Colors Favourite = Colors.Red;

        [DebuggerBrowsable(DebuggerBrowsableState.Never)]
        private readonly string name;
        public static int Count;
        protected internal Dictionary<string, List<int[]>> index = new Dictionary<string, List<int[]>>();
        public int? maybe;
        public (int Left, string Right) pair;
        public int[,,] cube;
        public int[][,] jagged;
        public unsafe int* pointer;
        public volatile int fenced;
        public (int, int, int, int, int, int, int, int, int) nine;

        protected Shape(string name) { this.name = name; Count++; } // @mark constructor

        public string Name => name;
        public abstract int Sides { get; }
        public int this[int row, string column] { get { return row; } set { Count = value; } }
        public event EventHandler<EventArgs> Changed;

        public virtual void Scale(int by) { Changed?.Invoke(this, null); }
        public void Scale(double by, ref int left, out string right, in long inner) { right = Greeting; left = (int)by; }
        public TResult Convert<TSource, TResult>(TSource source, Func<TSource, TResult> by) where TResult : class => by(source);
        public int CompareTo(Shape other) => Sides.CompareTo(other.Sides);
        void IDisposable.Dispose() { }

        public class Inner<T>
        {
            public T value;
            public Inner<Inner<T>> deeper;
            public struct Deep<U> { public T first; public U second; public KeyValuePair<T, U> both; }
        }
    }

    public sealed class Square : Shape
    {
        public Square() : base("square") { }
        public override int Sides => 4;
    }

    public delegate int Reduce(int left, int right);

    public interface IShapes<out T> : IEnumerable<T> { }

    public struct Point { public int X, Y; public override string ToString() => $"{X}/{Y}"; }
}

namespace Sample
{
    using Shapes;

    public static class Program
    {
        public static int Main(string[] arguments)
        { // @mark main_open
            int total = 0; // @mark total
            for (int i = 0; i < 3; i++) // @mark loop
            {
                int square = i * i; // @mark square
                total += square;
                {
                    const int limit = 100;
                    const string label = "limit";
                    const Colors color = Colors.Green;
                    const decimal price = 12.50m;
                    const object nothing = null;
                    const bool flag = true;
                    const float ratio = 1.5f;
                    if (total > limit) Console.WriteLine(label + color + price + nothing + flag + ratio); // @mark limit
                }
            }

            // Nothing stands here. @mark blank
            string text = Describe( // @mark long_statement
                total,
                arguments.Length); // @mark long_statement_end
            Func<int, int> twice = value => // @mark lambda_declaration
            {
                int result = value * 2; // @mark lambda

                // Nothing stands here either. @mark lambda_blank
                return result + total;
            };
            (int Left, (string Inner, int) Right) pair = (1, (text, 2)); // @mark tuple
            dynamic anything = text; // @mark dynamic
            int a = 1; int b = 2; // @mark two_statements
            GC.KeepAlive(anything);
            return twice(a + b) + pair.Left + Abs(-1); // @mark return
        } // @mark main_close

        private static string Describe(int total, int count)
        {
            try
            {
                return new Text.StringBuilder().Append(total).Append(count).ToString();
            }
            catch (InvalidOperationException error) when (error.Message != null) // @mark filter
            {
                return error.Message;
            }
            catch (ArgumentException)
            {
                throw;
            }
            finally
            {
                Shape.Count++; // @mark finally
            }
        }

        public static IEnumerable<int> Numbers(int count) // @mark iterator
        {
            for (int i = 0; i < count; i++)
            {
                int doubled = i * 2; // @mark doubled
                yield return doubled; // @mark yield
            }
        }

        public static async Task<int> SumAsync(int count) // @mark async
        {
            int sum = 0; // @mark async_first
            foreach (int number in Numbers(count))
            {
                await Task.Delay(number); // @mark await_delay
                sum += number;
            }
            string suffix = await Task.FromResult("!"); // @mark await_result
            return sum + suffix.Length; // @mark async_return
        }

        public static async void Fire() // @mark async_void
        {
            await Task.Yield(); // @mark await_yield
        }

#line 1000 "generated/other.txt"
        public static int Elsewhere(int value)
        {
            return value + 1;
        }
#line default

#line hidden
        public static int Hidden() => 1;
#line default

        [DebuggerHidden] public static void NoStep() { }
        [DebuggerStepThrough] public static void Through() { }
        [DebuggerNonUserCode] public static void NotMine() { }
        public static int Choose(int value) // @mark choose
        {
            switch (value)
            {
                case 0: return 10;
                case 1: return 20;
                case 2: return 30;
                case 3: return 40;
                case 4: return 50;
                default: return "none".Length;
            }
        }
        public static string Null(Shape shape) => shape.Name.Trim(); // @mark null
        public static extern int Native(int value);
    }
}
